-- Recordings that differ from what was requested: fewer steps, other processes left out, a second profiler.
-- A row is one run and note of `tracelab collect`.
-- /// check
-- title = "Recorded otherwise than requested"
-- severity = "warning"
-- how_to_fix = "Treat its figures as those of what was recorded, or record again with a window that the program reaches."
-- ///
select
    run,
    case when len(ranks) = 1 then ranks[1] end as rank,
    greatest(1, coalesce(len(ranks), 1)) as count,
    upper(sentence[1]) || sentence[2:] || '.' as message
from run_notes
order by run, ranks, message
