-- Sums over layers: how long three relations, or the classes of layer_parts(), run alone, together or not at all. One sweep
-- counts the rows of each layer that run. Where only sums are needed, each half of a recording is swept on a core of its own.
-- Relations and lanes are those of 20_intervals.sql.

-- three_as_one(a, b, c): the rows of three relations with the `number` of theirs, 1 to 3.
create or replace macro three_as_one(a, b, c) as table
select run, source, rank, device, 1::tinyint as number, start_ns, end_ns from query_table(a)
union all
select run, source, rank, device, 2::tinyint, start_ns, end_ns from query_table(b)
union all
select run, source, rank, device, 3::tinyint, start_ns, end_ns from query_table(c);

-- running_depths(rows): rows (lane, number, start_ns, end_ns) with a number from 1 to 3 swept together as in sweep(): depth_a, depth_b
-- and depth_c are how many of each number run. A row is one stretch of time between two events of its lane.
create or replace macro running_depths(rows) as table
with _events as (
    select lane, start_ns as at_ns, number as change from query_table(rows)
    union all
    select lane, end_ns, -number from query_table(rows)
),
_counts as (
    select
        lane, at_ns,
        lead(lane) over () as next_lane,
        lead(at_ns) over () as next_ns,
        count(*) filter (change = 1) over (rows between unbounded preceding and current row) as starts_a,
        count(*) filter (change = -1) over (rows between unbounded preceding and current row) as ends_a,
        count(*) filter (change = 2) over (rows between unbounded preceding and current row) as starts_b,
        count(*) filter (change = -2) over (rows between unbounded preceding and current row) as ends_b,
        count(*) filter (change = 3) over (rows between unbounded preceding and current row) as starts_c,
        count(*) filter (change = -3) over (rows between unbounded preceding and current row) as ends_c
    from (select lane, at_ns, change from _events order by lane, at_ns)
)
select
    lane,
    at_ns as start_ns, next_ns as end_ns, next_ns - at_ns as dur_ns,
    starts_a - ends_a as depth_a, starts_b - ends_b as depth_b, starts_c - ends_c as depth_c
from _counts
where lane = next_lane and next_ns > at_ns;

-- layers(a, b, c): how many rows of each of three relations run at once. A row is one stretch of time, from the first
-- event of any of the three in a source to the last one. Every class algebra is a filter on it: `depth_a > 0 and
-- depth_b = 0` is where a runs outside b, all three 0 is idle.
create or replace macro layers(a, b, c) as table
with _three as not materialized (
    from three_as_one(a, b, c)
),
_lanes as materialized (
    from lanes('_three')
),
_rows as (
    select lane, number, start_ns, end_ns from with_lane('_three', '_lanes')
)
select run, source, rank, device, start_ns, end_ns, dur_ns, depth_a, depth_b, depth_c
from running_depths('_rows')
join _lanes using (lane);

-- depth_totals(lanes, rows): state_totals() of rows (lane, middle_ns, number, start_ns, end_ns) with a number from 1 to 3 on lanes.
-- Nothing runs in what the states of both halves leave of the window.
create or replace macro depth_totals(lanes, rows) as table
with _early as not materialized (
    select lane, number, start_ns, end_ns from early_half(rows)
),
_late as not materialized (
    select lane, number, start_ns, end_ns from late_half(rows)
),
_sums as materialized (
    select lane, depth_a, depth_b, depth_c, sum(dur_ns) as dur_ns
    from (
        select lane, depth_a, depth_b, depth_c, sum(dur_ns) as dur_ns
        from running_depths('_early')
        group by lane, depth_a, depth_b, depth_c
        union all
        select lane, depth_a, depth_b, depth_c, sum(dur_ns)
        from running_depths('_late')
        group by lane, depth_a, depth_b, depth_c
    )
    where depth_a > 0 or depth_b > 0 or depth_c > 0
    group by lane, depth_a, depth_b, depth_c
),
_busy as (
    select lane, sum(dur_ns) as busy_ns from _sums group by lane
)
select run, source, rank, device, dur_ns, depth_a, depth_b, depth_c
from query_table(lanes)
join _sums using (lane)
union all
select run, source, rank, device, last_ns - first_ns - coalesce(busy_ns, 0), 0, 0, 0
from query_table(lanes)
left join _busy using (lane)
where coalesce(last_ns - first_ns > busy_ns, true);

-- state_totals(a, b, c): the time in which each three depths of layers() hold, added up. A row is one run, source, rank,
-- device and three depths, which are few; where no time passes between its rows, a source has one of depths 0 and 0 ns.
create or replace macro state_totals(a, b, c) as table
with _three as not materialized (
    from three_as_one(a, b, c)
),
_lanes as materialized (
    from lanes('_three')
),
_rows as materialized (
    select lane, middle_ns, number, start_ns, end_ns from with_lane('_three', '_lanes')
)
from depth_totals('_lanes', '_rows');

-- half_layer_sums(rows): of each lane of rows (lane, layer, start_ns, end_ns) the time in which one of the first layers ran: in_1_ns
-- of the first, … in_6_ns of all, in the order in which layer_parts() counts them; and comm_ns, memory_ns and busy_ns. One pass
-- over events: rows run where there are more starts than ends so far, as in sweep().
create or replace macro half_layer_sums(rows) as table
with _placed as not materialized (
    select lane, start_ns, end_ns, (1 + 2 * (layer % 3) + layer // 3)::tinyint as change from query_table(rows)
),
_events as (
    select lane, start_ns as at_ns, change from _placed
    union all
    select lane, end_ns, -change from _placed
),
_states as (
    select
        lane,
        case when lead(lane) over () = lane then lead(at_ns) over () - at_ns end as dur_ns,
        count(*) filter (change = 1) over (rows between unbounded preceding and current row)
            > count(*) filter (change = -1) over (rows between unbounded preceding and current row) as in_1,
        count(*) filter (change between 1 and 2) over (rows between unbounded preceding and current row)
            > count(*) filter (change between -2 and -1) over (rows between unbounded preceding and current row) as in_2,
        count(*) filter (change between 1 and 3) over (rows between unbounded preceding and current row)
            > count(*) filter (change between -3 and -1) over (rows between unbounded preceding and current row) as in_3,
        count(*) filter (change between 1 and 4) over (rows between unbounded preceding and current row)
            > count(*) filter (change between -4 and -1) over (rows between unbounded preceding and current row) as in_4,
        count(*) filter (change between 1 and 5) over (rows between unbounded preceding and current row)
            > count(*) filter (change between -5 and -1) over (rows between unbounded preceding and current row) as in_5,
        count(*) filter (change between 1 and 6) over (rows between unbounded preceding and current row)
            > count(*) filter (change between -6 and -1) over (rows between unbounded preceding and current row) as in_6,
        count(*) filter (change = 3) over (rows between unbounded preceding and current row)
            > count(*) filter (change = -3) over (rows between unbounded preceding and current row) as communicates,
        count(*) filter (change = 5) over (rows between unbounded preceding and current row)
            > count(*) filter (change = -5) over (rows between unbounded preceding and current row) as copies,
        count(*) filter (change in (1, 3, 5)) over (rows between unbounded preceding and current row)
            > count(*) filter (change in (-1, -3, -5)) over (rows between unbounded preceding and current row) as is_busy
    from (select lane, at_ns, change from _events order by lane, at_ns)
)
select
    lane,
    sum(dur_ns) filter (in_1) as in_1_ns,
    sum(dur_ns) filter (in_2) as in_2_ns,
    sum(dur_ns) filter (in_3) as in_3_ns,
    sum(dur_ns) filter (in_4) as in_4_ns,
    sum(dur_ns) filter (in_5) as in_5_ns,
    sum(dur_ns) filter (in_6) as in_6_ns,
    sum(dur_ns) filter (communicates) as comm_ns,
    sum(dur_ns) filter (copies) as memory_ns,
    sum(dur_ns) filter (is_busy) as busy_ns
from _states
group by lane;

-- layer_sums(rows): half_layer_sums() of both halves of rows (lane, middle_ns, layer, start_ns, end_ns) added up; lanes without time
-- in a layer have 0.
create or replace macro layer_sums(rows) as table
with _early as not materialized (
    select lane, layer, start_ns, end_ns from early_half(rows)
),
_late as not materialized (
    select lane, layer, start_ns, end_ns from late_half(rows)
),
_halves as (
    from half_layer_sums('_early')
    union all
    from half_layer_sums('_late')
)
select lane, coalesce(sum(columns(* exclude (lane))), 0)
from _halves
group by lane;

-- regions(a, b, c): the measure of each of the eight regions that three relations make of their window. A row is one run,
-- rank and device; the eight add up to window_ns, from the first start to the last end of each source.
create or replace macro regions(a, b, c) as table
with _measures as (
    select run, rank, device, dur_ns, depth_a > 0 as in_a, depth_b > 0 as in_b, depth_c > 0 as in_c from state_totals(a, b, c)
)
select
    run, rank, device,
    as_bigint(sum(dur_ns)) as window_ns,
    as_bigint(coalesce(sum(dur_ns) filter (in_a and in_b and in_c), 0)) as abc_ns,
    as_bigint(coalesce(sum(dur_ns) filter (in_a and in_b and not in_c), 0)) as ab_ns,
    as_bigint(coalesce(sum(dur_ns) filter (in_a and not in_b and in_c), 0)) as ac_ns,
    as_bigint(coalesce(sum(dur_ns) filter (not in_a and in_b and in_c), 0)) as bc_ns,
    as_bigint(coalesce(sum(dur_ns) filter (in_a and not in_b and not in_c), 0)) as a_ns,
    as_bigint(coalesce(sum(dur_ns) filter (not in_a and in_b and not in_c), 0)) as b_ns,
    as_bigint(coalesce(sum(dur_ns) filter (not in_a and not in_b and in_c), 0)) as c_ns,
    as_bigint(coalesce(sum(dur_ns) filter (not in_a and not in_b and not in_c), 0)) as idle_ns
from _measures
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
