-- alone(relation): of each part of the relation the time in which it ran, and that in which no other part did; and, the same
-- for all parts of a device, the time in which at least one ran, and the window. A row is one run, rank, device and part.
-- Where n rows run at once, and their parts' numbers add up to s and the squares of these to q, all are of one part where
-- n·q = s² (and of that with the number s / n), and only there: so one sweep of all parts tells. The three are one number for
-- the running sum: 31 bits for n, 40 for s, 55 for q. It is exact while a device has fewer than a million parts, and 32 768
-- rows that run at once.
create or replace macro alone(relation) as table
with _lanes as materialized (
    from lanes(relation)
),
_clocks as materialized (
    from clocks('_lanes')
),
_timelines as materialized (
    select *, row_number() over (partition by clock order by lane) as number
    from clocked('_lanes', '_clocks')
),
_rows as (
    select lane, start_ns, end_ns from laned(relation, '_lanes')
),
_steps as (
    select clock, start_ns, end_ns, 1::hugeint + (number::hugeint << 31) + ((number * number)::hugeint << 71) as step
    from _rows
    join _timelines using (lane)
),
_events as (
    select clock as lane, start_ns as at_ns, step from _steps
    union all
    select clock, end_ns, -step from _steps
),
_states as (
    select lane as clock, depth, sum(dur_ns) as measure_ns from swept('_events') where depth > 0 group by lane, depth
),
_measures as (
    select
        clock, measure_ns,
        case when running * squares = numbers * numbers then numbers // running end as number
    from (
        select
            clock, measure_ns,
            depth & 2147483647 as running,
            (depth >> 31) & 1099511627775 as numbers,
            depth >> 71 as squares
        from _states
    )
),
_devices as (
    select run, rank, device, sum(any_ns) as any_ns, sum(last_ns - first_ns) as window_ns
    from _clocks
    left join (select clock, sum(measure_ns) as any_ns from _measures group by clock) using (clock)
    group by run, rank, device
),
_alone as (
    select run, rank, device, part, sum(alone_ns) as alone_ns, sum(busy_ns) as busy_ns
    from _timelines
    left join (select clock, number, sum(measure_ns) as alone_ns from _measures group by clock, number) using (clock, number)
    left join united('_rows') using (lane)
    group by run, rank, device, part
)
select
    l.run, l.rank, l.device, l.part,
    whole(coalesce(l.busy_ns, 0)) as busy_ns,
    whole(coalesce(l.alone_ns, 0)) as alone_ns,
    whole(coalesce(d.any_ns, 0)) as any_ns,
    whole(d.window_ns) as window_ns
from _alone as l
left join _devices as d on l.run = d.run and l.rank = d.rank and l.device is not distinct from d.device;
