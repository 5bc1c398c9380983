-- Sources of one run whose clocks each start with their own capture.
-- A row is one run with several sources, all on the clock 'session'. Times within a rank are right; their times
-- do not show which rank was first or waited for another.
-- /// check
-- title = "No clock in common"
-- severity = "warning"
-- how_to_fix = "Compare ranks with --aligned, where they share collectives; else record with a profiler that notes the time of day."
-- ///
select
    run,
    null::integer as rank,
    count(*) as count,
    format(
        'Times of each of its {} sources count from the start of its own capture: they cannot be compared.', count(*)
    ) as message
from sources
group by run
having count(*) > 1 and count(*) = count(*) filter (clock = 'session')
order by run
