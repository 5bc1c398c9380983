-- Interval algebra by sweeps: +1 at each start, -1 at each end, a running sum in between; overlaps are never joined.
--
-- A relation here has run, source, rank, device, start_ns, end_ns, and may have `part` (of any type): rows of different
-- parts are never merged. Rows that are not measured() are left out.
-- Each source is swept on its own and the sources' times are added: clocks of two sources need not agree, and a gap
-- between them is no idle time. By construction the sources of one rank do not overlap; where they do after all
-- (one trace stored under two names) time counts once a source, in the measure as in the window.
-- Between two events of one instant no time passes, so what the sum is there never shows: back-to-back intervals neither
-- dip nor overlap.

-- intervals(relation): the measured() rows, with what a sweep needs of them; `part` is NULL where the relation has none.
create or replace macro intervals(relation) as table
select run, source, rank, device, part, start_ns, end_ns
from (select null as part where false union all by name from query_table(relation))
where measured(start_ns, end_ns);

-- lane_of(run, source, rank, device): the number of the timeline that a row stands on; lane_of_part, of its part there.
-- A hash of the columns: of a million rows each gets its number without a join, and one number sorts faster than five
-- columns. lanes() and lanes_of_three() make sure that no two of those they list have the same; the clocks of inside() and
-- alone(), and `timeline`, are not looked at: that two of a thousand timelines have the same is one chance in 10^13.
create or replace macro lane_of(run, source, rank, device) as
    hash(run::varchar, source::varchar, rank::integer, device::integer);
create or replace macro lane_of_part(run, source, rank, device, part) as
    hash(run::varchar, source::varchar, rank::integer, device::integer, part);

-- told_apart(lanes): relation of lanes, which have one number each; an error where two have the same.
create or replace macro told_apart(lanes) as table
select * exclude (alike)
from (select *, count(*) over (partition by lane) as alike from query_table(lanes))
where case when alike > 1 then error('two timelines have the same hash; ask for one run or rank alone') else true end;

-- lanes(relation): the (run, source, rank, device, part) that occur, each with its number.
create or replace macro lanes(relation) as table
with _lanes as (
    select lane_of_part(run, source, rank, device, part) as lane, run, source, rank, device, part
    from (select distinct run, source, rank, device, part from intervals(relation))
)
from told_apart('_lanes');

-- swept(events): the running sum of `step` over events (lane, at_ns, step). A row is one stretch of time between two
-- events of its lane that are not at the same instant; `depth` is the sum in it.
-- The windows have no order of their own, so DuckDB streams the ordered events through them: three times as fast as
-- `partition by lane order by at_ns`. In a lane the steps add up to 0, so none reaches into the next one.
create or replace macro swept(events) as table
with _sums as (
    select
        lane, at_ns,
        lead(lane) over () as next_lane,
        lead(at_ns) over () as next_ns,
        sum(step) over (rows between unbounded preceding and current row) as depth
    from (select lane, at_ns, step from query_table(events) order by lane, at_ns)
)
select lane, at_ns as start_ns, next_ns as end_ns, next_ns - at_ns as dur_ns, depth
from _sums
where lane = next_lane and next_ns > at_ns;

-- sweep(relation): how many rows of a lane run at once. A row is one stretch of time between two events of its lane.
create or replace macro sweep(relation) as table
with _rows as (
    select lane_of_part(run, source, rank, device, part) as lane, start_ns, end_ns from intervals(relation)
),
_events as (
    select lane, start_ns as at_ns, 1 as step from _rows
    union all
    select lane, end_ns, -1 from _rows
)
select lane, start_ns, end_ns, dur_ns, depth::integer as depth
from swept('_events');

-- depth(relation): how many rows of the relation run at once. A row is one stretch of time between two events.
create or replace macro depth(relation) as table
select run, source, rank, device, part, start_ns, end_ns, dur_ns, depth
from sweep(relation)
join lanes(relation) using (lane);

-- busy(relation): time in which at least one row runs (the measure of the union), and in which at least two do.
-- A row is one run, rank, device and part.
create or replace macro busy(relation) as table
with _lane_sums as (
    select
        lane,
        sum(dur_ns) filter (depth >= 1) as busy_ns,
        sum(dur_ns) filter (depth >= 2) as concurrent_ns,
        max(depth) as max_concurrent
    from sweep(relation)
    group by lane
)
select
    run, rank, device, part,
    whole(coalesce(sum(busy_ns), 0)) as busy_ns,
    whole(coalesce(sum(concurrent_ns), 0)) as concurrent_ns,
    coalesce(max(max_concurrent), 0) as max_concurrent
from lanes(relation)
left join _lane_sums using (lane)
group by run, rank, device, part;

-- lanes_of_three(a, b, c): the (run, source, rank, device) of three relations together, each with its number.
create or replace macro lanes_of_three(a, b, c) as table
with _seen as (
    select distinct run, source, rank, device from intervals(a)
    union
    select distinct run, source, rank, device from intervals(b)
    union
    select distinct run, source, rank, device from intervals(c)
),
_lanes as (
    select lane_of(run, source, rank, device) as lane, run, source, rank, device from _seen
)
from told_apart('_lanes');

-- events_of_three(a, b, c): starts and ends of three relations, to be swept together. The three depths are one number, so
-- that one running sum counts them: 31 bits for a, 31 for b, the rest for c (a sum has 128 bits). It is exact while fewer
-- than 2 147 483 648 rows of a relation run at once.
create or replace macro events_of_three(a, b, c) as table
with _rows as (
    select lane_of(run, source, rank, device) as lane, start_ns, end_ns, 1::bigint as step from intervals(a)
    union all
    select lane_of(run, source, rank, device), start_ns, end_ns, 1::bigint << 31 from intervals(b)
    union all
    select lane_of(run, source, rank, device), start_ns, end_ns, 1::bigint << 62 from intervals(c)
)
select lane, start_ns as at_ns, step from _rows
union all
select lane, end_ns, -step from _rows;

-- depths_of_three(stretches): stretches that swept() made of these events, the three depths told apart.
create or replace macro depths_of_three(stretches) as table
select
    * exclude (depth),
    (depth & 2147483647)::bigint as depth_a,
    ((depth >> 31) & 2147483647)::bigint as depth_b,
    (depth >> 62)::bigint as depth_c
from query_table(stretches);

-- layers(a, b, c): how many rows of each of three relations run at once. A row is one stretch of time, from the first
-- event of any of the three in a source to the last one. Every class algebra is a filter on it: `depth_a > 0 and
-- depth_b = 0` is where a runs outside b, all three 0 is idle.
create or replace macro layers(a, b, c) as table
with _events as (
    from events_of_three(a, b, c)
),
_stretches as (
    from swept('_events')
)
select run, source, rank, device, start_ns, end_ns, dur_ns, depth_a, depth_b, depth_c
from depths_of_three('_stretches')
join lanes_of_three(a, b, c) using (lane);

-- regions(a, b, c): the measure of each of the eight regions that three relations make of their window. A row is one run,
-- rank and device; the eight add up to window_ns, from the first start to the last end of each source.
create or replace macro regions(a, b, c) as table
with _events as (
    from events_of_three(a, b, c)
),
_states as (  -- of the same depths, of which there are few, all stretches at once
    select lane, depth, sum(dur_ns) as measure_ns from swept('_events') group by lane, depth
),
_measures as (
    select lane, measure_ns, depth_a > 0 as in_a, depth_b > 0 as in_b, depth_c > 0 as in_c
    from depths_of_three('_states')
)
select
    run, rank, device,
    whole(coalesce(sum(measure_ns), 0)) as window_ns,
    whole(coalesce(sum(measure_ns) filter (in_a and in_b and in_c), 0)) as abc_ns,
    whole(coalesce(sum(measure_ns) filter (in_a and in_b and not in_c), 0)) as ab_ns,
    whole(coalesce(sum(measure_ns) filter (in_a and not in_b and in_c), 0)) as ac_ns,
    whole(coalesce(sum(measure_ns) filter (not in_a and in_b and in_c), 0)) as bc_ns,
    whole(coalesce(sum(measure_ns) filter (in_a and not in_b and not in_c), 0)) as a_ns,
    whole(coalesce(sum(measure_ns) filter (not in_a and in_b and not in_c), 0)) as b_ns,
    whole(coalesce(sum(measure_ns) filter (not in_a and not in_b and in_c), 0)) as c_ns,
    whole(coalesce(sum(measure_ns) filter (not in_a and not in_b and not in_c), 0)) as idle_ns
from lanes_of_three(a, b, c)
left join _measures using (lane)
group by run, rank, device;

-- exclusive(a, b, c): the window divided by precedence. A row is one run, rank and device: time in a; in b and not in a;
-- in c and in neither; in none. The four parts add up to window_ns.
create or replace macro exclusive(a, b, c) as table
select
    run, rank, device, window_ns,
    try(a_ns + ab_ns + ac_ns + abc_ns) as a_ns,
    try(b_ns + bc_ns) as b_only_ns,
    c_ns as c_only_ns,
    idle_ns
from regions(a, b, c);

-- overlap(a, b): the measure of two relations' intersection. A row is one run, rank and device.
create or replace macro overlap(a, b) as table
select run, rank, device, abc_ns as overlap_ns
from regions(a, b, b);

-- overlap_of_three(a, b, c): the measure of three relations' intersection. A row is one run, rank and device.
create or replace macro overlap_of_three(a, b, c) as table
select run, rank, device, abc_ns as overlap_ns
from regions(a, b, c);

-- windows(relation): first start to last end, summed over the sources. A row is one run, rank and device.
create or replace macro windows(relation) as table
with _source_windows as (
    select run, source, rank, device, max(end_ns) - min(start_ns) as window_ns
    from intervals(relation)
    group by run, source, rank, device
)
select run, rank, device, whole(sum(window_ns)) as window_ns
from _source_windows
group by run, rank, device;

-- inside(relation, cover): of each part of the relation the measure of its union, and of what of it lies inside the union
-- of the cover. A row is one run, rank, device and part. The cover is swept once, and its clock, the time so far in which
-- it ran, is read at the events of the parts. Both sweeps stream as in swept(); at the end of a lane nothing runs, so no
-- time between two lanes counts.
create or replace macro inside(relation, cover) as table
with _lanes as materialized (
    select lane, run, source, rank, device, part, lane_of(run, source, rank, device) as clock from lanes(relation)
),
_parts as (
    select
        lane_of(run, source, rank, device) as clock,
        lane_of_part(run, source, rank, device, part) as lane,
        start_ns, end_ns
    from intervals(relation)
),
_covers as (
    select clock, start_ns, end_ns
    from (select lane_of(run, source, rank, device) as clock, start_ns, end_ns from intervals(cover))
    semi join _lanes using (clock)
),
_events as (
    select clock, start_ns as at_ns, lane, 1 as step_part, 0 as step_cover from _parts
    union all
    select clock, end_ns, lane, -1, 0 from _parts
    union all
    select clock, start_ns, null, 0, 1 from _covers
    union all
    select clock, end_ns, null, 0, -1 from _covers
),
_covered as (
    select
        lane, at_ns, step_part,
        case
            when sum(step_cover) over (rows between unbounded preceding and current row) > 0
            then lead(at_ns) over () - at_ns
            else 0
        end as covered_ns
    from (select clock, at_ns, lane, step_part, step_cover from _events order by clock, at_ns)
),
_clocked as (
    select
        lane, at_ns, step_part,
        sum(covered_ns) over (rows between unbounded preceding and current row) - covered_ns as clock_ns
    from _covered
),
_stretches as (
    select
        lane,
        lead(at_ns) over () - at_ns as dur_ns,
        lead(clock_ns) over () - clock_ns as inside_ns,
        sum(step_part) over (rows between unbounded preceding and current row) as depth
    from (select lane, at_ns, step_part, clock_ns from _clocked where lane is not null order by lane, at_ns)
)
select
    run, rank, device, part,
    whole(coalesce(sum(dur_ns) filter (depth > 0), 0)) as busy_ns,
    whole(coalesce(sum(inside_ns) filter (depth > 0), 0)) as inside_ns
from _stretches
join _lanes using (lane)
group by run, rank, device, part;
