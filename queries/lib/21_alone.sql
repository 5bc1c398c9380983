-- alone(relation): of each part of the relation the time in which it ran and no other part did; and the time in which at
-- least one part ran, the same for all of a device. A row is one run, rank, device and part. Where n rows run at once, and
-- their parts' numbers add up to s and the squares of these to q, all are of one part where n·q = s² (and of that with the
-- number s / n), and only there: so one sweep of all parts tells.
create or replace macro alone(relation) as table
with _lanes as materialized (
    select
        lane, run, source, rank, device, part,
        min(lane) over (partition by run, source, rank, device) as clock,
        lane - min(lane) over (partition by run, source, rank, device) + 1 as number
    from lanes(relation)
),
_rows as (
    select clock, number, start_ns, end_ns
    from intervals(relation) as i
    join _lanes as l
        on i.run = l.run and i.source = l.source and i.rank = l.rank
        and i.device is not distinct from l.device and i.part is not distinct from l.part
),
_events as (
    select clock, start_ns as at_ns, 1 as step, number from _rows
    union all
    select clock, end_ns, -1, number from _rows
),
_sums as (
    select
        clock, at_ns,
        lead(clock) over () as next_clock,
        lead(at_ns) over () as next_ns,
        sum(step) over (rows between unbounded preceding and current row) as running,
        sum(step * number) over (rows between unbounded preceding and current row) as numbers,
        sum(step * number * number) over (rows between unbounded preceding and current row) as squares
    from (select clock, at_ns, step, number::bigint as number from _events order by clock, at_ns)
),
_measures as (
    select
        clock,
        case when running * squares = numbers * numbers then numbers // running end as number,
        sum(next_ns - at_ns) as measure_ns
    from _sums
    where clock = next_clock and next_ns > at_ns and running > 0
    group by all
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
