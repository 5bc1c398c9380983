-- The rows of collective_kernels(), of all kernels.
with executions as not materialized (
    select run, source, rank, pid, device, stream, name, start_ns, end_ns, dur_ns, correlation
    from kernels
    where matches(run, $run)
)
from collective_kernels('executions')
