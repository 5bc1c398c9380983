-- The rows of collective_kernels(), of all kernels; of runs without kernels those of cpu_collectives().
with executions as not materialized (
    select run, source, rank, pid, device, stream, name, start_ns, end_ns, dur_ns, correlation
    from kernels
    where matches(run, $run)
),
ranges as not materialized (
    select run, source, rank, pid, name, start_ns, end_ns, dur_ns, args
    from annotations
    where scope = 'cpu' and is_cpu_communication(name) and matches(run, $run)
        and run not in (select run from kernels where matches(run, $run))
)
from collective_kernels('executions')
union all by name
from cpu_collectives('ranges')
