-- solo_time(relation): of each part of the relation the time in which it ran, and that in which no other part did; and, the
-- same for all parts of a device, the time in which at least one ran, and the window. A row is one run, rank, device and
-- part. Two passes over starts, as in union_pieces(): the first makes pieces, which do not overlap in their part. In the second
-- a piece is alone from the second latest end so far on, if that is later than the last start, to the latest end or the next
-- start. What it is alone with is the part with the latest end.
create or replace macro solo_time(relation) as table
with _lanes as materialized (
    from lanes(relation)
),
_clocks as materialized (
    from clocks('_lanes')
),
_timelines as materialized (
    from with_clock('_lanes', '_clocks')
),
_rows as (
    select lane, start_ns, end_ns from with_lane(relation, '_lanes')
),
_pieces as materialized (
    from union_pieces('_rows')
),
_placed as (
    select lane, start_at, start_at + dur_ns as end_at
    from (
        select lane, (clock::hugeint << 64) + start_ns as start_at, dur_ns
        from (
            select clock, lane, start_ns, dur_ns
            from _pieces
            join (select clock, lane from _timelines) using (lane)
            where dur_ns > 0
            order by clock, start_ns
        )
    )
),
_reached as (
    select
        lane, start_at, end_at,
        max(end_at) over (rows between unbounded preceding and current row) as latest_at,
        lead(start_at, 1, 170141183460469231731687303715884105727) over () as next_at
    from _placed
),
_followed as (
    select lane, start_at, end_at, latest_at, next_at, lag(latest_at, 1, 0) over () as before_at
    from _reached
),
_ranked as (
    select
        start_at, latest_at, next_at,
        last_value(case when end_at > before_at then lane end ignore nulls)
            over (rows between unbounded preceding and current row) as lane,
        max(least(end_at, before_at)) over (rows between unbounded preceding and current row) as second_at
    from _followed
),
_measures as (
    select
        lane,
        sum(greatest(least(latest_at, next_at) - greatest(second_at, start_at), 0)::bigint) as alone_ns,
        sum((least(latest_at, next_at) - start_at)::bigint) as any_ns
    from _ranked
    group by lane
),
_busy as (
    select lane, sum(dur_ns) as busy_ns from _pieces group by lane
),
_devices as (
    select run, rank, device, sum(any_ns) as any_ns, sum(last_ns - first_ns) as window_ns
    from _clocks
    left join (select clock, sum(any_ns) as any_ns from _timelines join _measures using (lane) group by clock) using (clock)
    group by run, rank, device
),
_parts as (
    select run, rank, device, part, sum(alone_ns) as alone_ns, sum(busy_ns) as busy_ns
    from _timelines
    left join _measures using (lane)
    left join _busy using (lane)
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
