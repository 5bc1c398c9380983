-- alone(relation): of each part of the relation the time in which it ran and no other part did; and the time in which at
-- least one part ran, the same for all of a device. A row is one run, rank, device and part. Where n rows run at once, and
-- their parts' numbers add up to s and the squares of these to q, all are of one part where n·q = s² (and of that with the
-- number s / n), and only there: so one sweep of all parts tells. The three are one number for the running sum: 31 bits for
-- n, 40 for s, 55 for q. It is exact while a device has fewer than a million parts, and 32 768 rows that run at once.
create or replace macro alone(relation) as table
with _lanes as materialized (
    select
        lane, run, source, rank, device, part,
        lane_of(run, source, rank, device) as clock,
        row_number() over (partition by run, source, rank, device order by part) as number
    from lanes(relation)
),
_rows as (
    select clock, start_ns, end_ns, 1::hugeint + (number::hugeint << 31) + ((number * number)::hugeint << 71) as step
    from (select lane_of_part(run, source, rank, device, part) as lane, start_ns, end_ns from intervals(relation))
    join _lanes using (lane)
),
_events as (
    select clock as lane, start_ns as at_ns, step from _rows
    union all
    select clock, end_ns, -step from _rows
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
_any as (
    select run, rank, device, sum(measure_ns) as any_ns
    from _measures
    join (select distinct clock, run, rank, device from _lanes) using (clock)
    group by run, rank, device
),
_alone as (
    select run, rank, device, part, sum(measure_ns) as alone_ns
    from _lanes
    left join _measures using (clock, number)
    group by run, rank, device, part
)
select
    l.run, l.rank, l.device, l.part,
    whole(coalesce(l.alone_ns, 0)) as alone_ns,
    whole(coalesce(d.any_ns, 0)) as any_ns
from _alone as l
left join _any as d on l.run = d.run and l.rank = d.rank and l.device is not distinct from d.device;
