-- Events that end before they begin.
-- A row is one run and rank. They count as calls and add no time.
-- /// check
-- title = "Durations below 0"
-- severity = "warning"
-- how_to_fix = "Record again with a newer profiler; some builds write negative durations."
-- ///
with events as (
    select run, rank, 1 as place, 'kernels' as what, dur_ns from kernels
    union all
    select run, rank, 2, 'copies', dur_ns from memcpys
    union all
    select run, rank, 3, 'memsets', dur_ns from memsets
    union all
    select run, rank, 4, 'graphs', dur_ns from graph_launches
    union all
    select run, rank, 5, 'synchronizations', dur_ns from syncs
    union all
    select run, rank, 6, 'API calls', dur_ns from api_calls
    union all
    select run, rank, 7, 'ops', dur_ns from ops
    union all
    select run, rank, 8, 'ranges', dur_ns from annotations
    union all
    select run, rank, 9, 'Python calls', dur_ns from python_frames
    union all
    select run, rank, 10, 'steps', dur_ns from steps
    union all
    select run, rank, 11, 'other events', dur_ns from other_events
),
counts as (
    select run, rank, place, what, count(*) as events, min(dur_ns) as least_ns
    from events
    where dur_ns < 0
    group by run, rank, place, what
)
select
    run,
    rank,
    sum(events)::bigint as count,
    format(
        '{} with a duration below 0 (down to {}): {}.',
        count_phrase(sum(events), 'event', 'events'),
        format_duration(min(least_ns)),
        string_agg(format('{:,} {}', events, what), ', ' order by place)
    ) as message
from counts
group by run, rank
order by run, rank
