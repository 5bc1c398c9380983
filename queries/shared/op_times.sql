-- What ops take on the CPU, and on GPUs by what they launch, as op_summary defines it: a row is one run, rank and op. Of a wanted
-- rank, or of all; in a scope, of its ops.
-- /// of one query
-- /// of a session of one run
-- /// where by = "name"
-- /// where captures_from = null
with replayed as materialized (
    from known_replays($run, $rank, $captures_from)
),
executions as not materialized (
    select row_number() over () as place, *, null::varchar as detail from counted_ops('ops', $run, $rank, 'replayed')
),
api as not materialized (
    from filtered_calls($run, $rank)
),
activity as materialized (
    from filtered_activity($run, $rank)
)
from op_sums('executions', 'activity', 'api', 'replayed')
