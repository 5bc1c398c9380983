-- Time that the profiler reports as its own overhead: buffers, flushes, loading of functions.
-- A row is one run and rank. Above a twentieth of the recording it is a warning. What lies before and after the recorded
-- activity, such as the last flush, costs it nothing; overheads that overlap count once.
-- /// check
-- title = "Profiler overhead"
-- severity = "info"
-- how_to_fix = "Record some steps after a warm-up, with fewer kinds of activity; take times for comparison from runs without a profiler."
-- ///
with recorded as materialized (
    select row_number() over ()::integer as lane, * from recordings
),
overheads as (
    select
        lane,
        greatest(o.start_ns, r.start_ns) as start_ns,
        least(o.start_ns + o.dur_ns, r.end_ns) as end_ns
    from other_events as o
    join recorded as r using (run, rank, source)
    where o.category ilike '%overhead%' and o.dur_ns > 0 and has_valid_interval(o.start_ns, try(o.start_ns + o.dur_ns))
        and o.start_ns < r.end_ns and o.start_ns + o.dur_ns > r.start_ns
),
counts as (
    select lane, count(*) as events from overheads group by lane
),
sums as (
    select run, rank, sum(events) as events, sum(busy_ns) as dur_ns, sum(end_ns - start_ns) as recorded_ns
    from recorded
    left join union_times('overheads') using (lane)
    left join counts using (lane)
    group by run, rank
    having sum(events) > 0
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
from sums
order by run, rank
