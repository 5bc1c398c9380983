-- half_solo_times(rows, timelines): of each lane of rows (lane, start_ns, end_ns) of one half of the time busy_ns, in which it ran,
-- alone_ns, in which no other lane of its clock did, and any_ns, of which all lanes of a clock have a share. Two passes over
-- starts, as in union_pieces(): the first makes pieces, which do not overlap in their lane. In the second a piece is alone from
-- the second latest end so far on, if that is later than the last start, to the latest end or the next start. What it is
-- alone with is the lane with the latest end.
create or replace macro half_solo_times(rows, timelines) as table
with _pieces as materialized (
    from union_pieces(rows)
),
_placed as (
    select lane, start_at, start_at + dur_ns as end_at
    from (
        select lane, (clock::hugeint << 64) + start_ns as start_at, dur_ns
        from (
            select clock, lane, start_ns, dur_ns
            from _pieces
            join (select clock, lane from query_table(timelines)) using (lane)
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
)
select
    lane,
    0 as busy_ns,
    sum(greatest(least(latest_at, next_at) - greatest(second_at, start_at), 0)::bigint) as alone_ns,
    sum((least(latest_at, next_at) - start_at)::bigint) as any_ns
from _ranked
group by lane
union all
select lane, sum(dur_ns), 0, 0
from _pieces
group by lane;

-- solo_time(relation): of each part of the relation the time in which it ran, and that in which no other part did; and, the
-- same for all parts of a device, the time in which at least one ran, and the window. A row is one run, rank, device and
-- part. Each half of the time is swept apart, as early_half() describes.
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
_lane_keys as (
    select key, lane, first_ns + (last_ns - first_ns) // 2 as middle_ns from _timelines
),
_rows as materialized (
    select lane, middle_ns, start_ns, end_ns
    from (select lane_key(run, source, rank, device, part) as key, start_ns, end_ns from intervals(relation))
    join hint_small('_lane_keys') using (key)
),
_early as not materialized (from early_half('_rows')),
_late as not materialized (from late_half('_rows')),
_measures as (
    select lane, sum(busy_ns) as busy_ns, sum(alone_ns) as alone_ns, sum(any_ns) as any_ns
    from (
        from half_solo_times('_early', '_timelines')
        union all
        from half_solo_times('_late', '_timelines')
    )
    group by lane
),
_parts as materialized (
    select
        run, rank, device, part,
        coalesce(sum(alone_ns), 0) as alone_ns,
        coalesce(sum(busy_ns), 0) as busy_ns,
        coalesce(sum(any_ns), 0) as any_ns
    from _timelines
    left join _measures using (lane)
    group by run, rank, device, part
),
_windows as (
    select run, rank, device, sum(last_ns - first_ns) as window_ns from _clocks group by run, rank, device
)
select
    l.run, l.rank, l.device, l.part,
    as_bigint(l.busy_ns) as busy_ns,
    as_bigint(l.alone_ns) as alone_ns,
    as_bigint(sum(l.any_ns) over (partition by l.run, l.rank, l.device)) as any_ns,
    as_bigint(w.window_ns) as window_ns
from _parts as l
left join _windows as w on l.run = w.run and l.rank = w.rank and l.device is not distinct from w.device;

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
