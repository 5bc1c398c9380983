-- The rows of busy_sums(), of all ranks.
-- /// of one query
with activity as not materialized (
    select run, source, rank, device, start_ns, end_ns, dur_ns from gpu_activity where matches(run, $run)
),
calls as not materialized (
    select run, source, rank, pid, tid, start_ns, end_ns, dur_ns from ops where matches(run, $run)
)
from busy_sums('activity', 'calls')
