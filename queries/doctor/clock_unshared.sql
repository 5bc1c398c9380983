-- Sources of one run that each count from a start of their own.
-- A row is one run with several sources, all on the clock 'session'. Each rank is right in itself; which of them was
-- first, or waited for another, cannot be told from their times.
-- /// check
-- title = "No clock in common"
-- severity = "warning"
-- how_to_fix = "Record with a profiler that notes the time of day, if ranks are to be compared in time."
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
