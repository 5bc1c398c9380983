-- GPU activity that names no device.
-- A row is one run and rank. Summaries list it under the device NULL.
-- /// check
-- title = "No device named"
-- severity = "warning"
-- how_to_fix = "Use a profiler that notes the device of each kernel."
-- ///
select
    run,
    rank,
    count(*) as count,
    format('{} without a device.', count_phrase(count(*), 'GPU event is', 'GPU events are')) as message
from gpu_activity
where device is null
group by run, rank
order by run, rank
