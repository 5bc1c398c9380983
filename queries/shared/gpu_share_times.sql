-- The rows of gpu_share_sums(), of all devices.
-- /// of one query
with activity as not materialized (
    select run, source, rank, device, start_ns, end_ns, dur_ns from gpu_activity where matches(run, $run)
),
executions as not materialized (
    select run, source, rank, pid, device, stream, name, start_ns, end_ns, dur_ns, correlation
    from kernels
    where matches(run, $run)
)
from gpu_share_sums('activity', 'executions')
