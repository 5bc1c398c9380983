-- The rows of activity_sums(), of all devices. Of a wanted rank, or of all.
-- /// of one query
with activity as not materialized (  -- each use reads only its own kinds and columns
    select run, source, rank, device, kind, start_ns, end_ns, dur_ns
    from gpu_activity
    where matches(run, $run) and matches(rank, $rank)
),
executions as not materialized (
    select run, source, rank, pid, device, stream, name, start_ns, end_ns, dur_ns, correlation
    from kernels
    where matches(run, $run) and matches(rank, $rank)
),
kinds as materialized (
    select run, source, rank, device, start_ns, end_ns, dur_ns, class from with_class('executions')
)
from activity_sums('activity', 'kinds')
