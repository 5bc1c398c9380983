-- Kernels and copies that took no time.
-- A row is one run and rank. They count as calls and add no time: the profiler's clock is too coarse for them.
-- /// check
-- title = "Durations of 0"
-- severity = "info"
-- how_to_fix = "If they are many, record in nanoseconds: a trace in whole microseconds has more of them; ignore a few."
-- ///
select
    run,
    rank,
    count(*) as count,
    format(
        '{} 0 ns.',
        count_phrase(count(*), 'kernel, copy or memset lasts', 'kernels, copies or memsets last')
    ) as message
from gpu_activity
where dur_ns = 0
group by run, rank
order by run, rank
