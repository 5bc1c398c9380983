-- Kernels and copies that took no time.
-- A row is one run and rank. They are counted as calls and have no measure: shorter than the profiler's clock can tell.
-- /// check
-- title = "Durations of 0"
-- severity = "info"
-- how_to_fix = "Nothing, if they are few; a trace in whole microseconds has more of them than one in nanoseconds."
-- ///
select
    run,
    rank,
    count(*) as count,
    format(
        '{} 0 ns.',
        count_phrase(count(*), 'kernel, copy or fill lasts', 'kernels, copies and fills last')
    ) as message
from gpu_activity
where dur_ns = 0
group by run, rank
order by run, rank
