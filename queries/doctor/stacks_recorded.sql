-- Recordings with Python stacks, which slow the processor more than anything else a profiler notes.
-- A row is one run and rank. Idle time of the GPU, and times of ops, may be the profiler's doing.
-- /// check
-- title = "Stacks were recorded"
-- severity = "info"
-- how_to_fix = "Take times from a recording without with_stack, and stacks from another."
-- ///
select
    run,
    rank,
    count(*) as count,
    format(
        '{} recorded; that slows the processor, so idle time may be the profiler''s.',
        count_phrase(count(*), 'Python call was', 'Python calls were')
    ) as message
from python_frames
group by run, rank
order by run, rank
