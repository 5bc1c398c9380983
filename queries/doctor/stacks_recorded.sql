-- Recordings with Python stacks, which slow the CPU more than any other activity that a profiler records.
-- A row is one run and rank. The profiler may cause idle time of the GPU and lengthen ops.
-- /// check
-- title = "Python stacks recorded"
-- severity = "info"
-- how_to_fix = "Take times from a recording without with_stack, and stacks from another."
-- ///
select
    run,
    rank,
    count(*) as count,
    format(
        '{} recorded, which slows the CPU: the profiler may cause the idle time.',
        count_phrase(count(*), 'Python call was', 'Python calls were')
    ) as message
from python_frames
group by run, rank
order by run, rank
