-- Time that the profiler reports as its own overhead: buffers, flushes, loading of functions.
-- A row is one run and rank. Above a twentieth of the recording it is a warning.
-- /// check
-- title = "Profiler overhead"
-- severity = "info"
-- how_to_fix = "Record some steps after a warm-up, with fewer kinds of activity; take times for comparison from runs without a profiler."
-- ///
with overheads as (
    select run, rank, count(*) as events, sum(dur_ns) as dur_ns
    from other_events
    where category ilike '%overhead%' and dur_ns > 0 and has_valid_interval(start_ns, try(start_ns + dur_ns))
    group by run, rank
),
spans as (
    select run, rank, sum(end_ns - start_ns) as recorded_ns from recordings group by run, rank
)
select
    run,
    rank,
    events as count,
    format(
        'The profiler reports {} of its own overhead in {} of recording ({}).',
        format_duration(dur_ns), format_duration(recorded_ns), percent(dur_ns, recorded_ns)
    ) as message,
    case when dur_ns > 0.05 * recorded_ns then 'warning' end as severity
from overheads
join spans using (run, rank)
order by run, rank
