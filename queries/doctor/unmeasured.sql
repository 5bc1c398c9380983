-- GPU activity without a start or a duration.
-- A row is one run and rank. Such events count as calls and add no time.
-- /// check
-- title = "No start or duration"
-- severity = "warning"
-- how_to_fix = "Record again; a capture that ends while they run leaves such events."
-- ///
select
    run,
    rank,
    count(*) as count,
    format('{} no start or no duration.', count_phrase(count(*), 'GPU event has', 'GPU events have')) as message
from gpu_activity
where start_ns is null or dur_ns is null
group by run, rank
order by run, rank
