-- solo_time(relation): of each part of the relation the time in which it ran, and that in which no other part did; and, the
-- same for all parts of a device, the time in which at least one ran, and the window. A row is one run, rank, device and
-- part. The pieces of a part's union do not overlap, so one sweep of all parts' pieces counts the parts that run, and adds
-- up their numbers: where one runs, the sum is its number. Both are one number for the running sum, the count from bit 40
-- on. It is exact while a device has fewer than a million parts.
create or replace macro solo_time(relation) as table
with _lanes as materialized (
    from lanes(relation)
),
_clocks as materialized (
    from clocks('_lanes')
),
_timelines as materialized (
    select *, row_number() over (partition by clock order by lane) as number
    from with_clock('_lanes', '_clocks')
),
_rows as (
    select lane, start_ns, end_ns from with_lane(relation, '_lanes')
),
_pieces as materialized (
    from union_pieces('_rows')
),
_steps as (
    select clock, start_ns, start_ns + dur_ns as end_ns, (1::bigint << 40) + number as step
    from _pieces
    join _timelines using (lane)
    where dur_ns > 0
),
_events as (
    select clock as lane, start_ns as at_ns, step from _steps
    union all
    select clock, end_ns, -step from _steps
),
_measures as (
    select
        lane as clock,
        case when depth >> 40 = 1 then depth & 1099511627775 end as number,
        sum(dur_ns) as measure_ns
    from running_depth('_events')
    where depth > 0
    group by clock, number
),
_devices as (
    select run, rank, device, sum(any_ns) as any_ns, sum(last_ns - first_ns) as window_ns
    from _clocks
    left join (select clock, sum(measure_ns) as any_ns from _measures group by clock) using (clock)
    group by run, rank, device
),
_parts as (
    select run, rank, device, part, sum(measure_ns) as alone_ns, sum(busy_ns) as busy_ns
    from _timelines
    left join _measures using (clock, number)
    left join (select lane, sum(dur_ns) as busy_ns from _pieces group by lane) using (lane)
    group by run, rank, device, part
)
select
    l.run, l.rank, l.device, l.part,
    as_bigint(coalesce(l.busy_ns, 0)) as busy_ns,
    as_bigint(coalesce(l.alone_ns, 0)) as alone_ns,
    as_bigint(coalesce(d.any_ns, 0)) as any_ns,
    as_bigint(d.window_ns) as window_ns
from _parts as l
left join _devices as d on l.run = d.run and l.rank = d.rank and l.device is not distinct from d.device;

-- exposed_times(relation, cover): of each row of a relation with a number, `id`, the time in which it ran and none of the cover
-- did. Of rows that run at once the one that began first has it, so that the times add up to that of the relation's union.
create or replace macro exposed_times(relation, cover) as table
with _reached as (
    select
        run, source, rank, device, id as part, start_ns, end_ns,
        max(end_ns) over (
            partition by run, source, rank, device order by start_ns, end_ns desc, id
            rows between unbounded preceding and 1 preceding
        ) as reached_ns
    from query_table(relation)
    where has_valid_interval(start_ns, end_ns)
),
_own_pieces as (
    select run, source, rank, device, part, greatest(start_ns, coalesce(reached_ns, start_ns)) as start_ns, end_ns
    from _reached
    where end_ns > coalesce(reached_ns, start_ns)
)
select part as id, busy_ns - inside_ns as exposed_ns
from clip_to('_own_pieces', cover);
