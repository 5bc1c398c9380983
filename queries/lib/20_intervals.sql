-- Interval algebra by sweeps: +1 at each start, -1 at each end, a running sum in between; overlaps are never joined. Where
-- only the measure of a union is needed, the starts and a running maximum of the ends do.
--
-- A relation here has run, source, rank, device, start_ns, end_ns, and may have `part` (of any type): rows of different
-- parts are never merged. Rows that are not has_valid_interval() are left out.
-- Each source is swept on its own and the sources' times are added: clocks of two sources need not agree, and a gap
-- between them is no idle time. By construction the sources of one rank do not overlap; where they do after all
-- (one trace stored under two names) time counts once a source, in the measure as in the window.
-- Between two events of one instant no time passes, so what the sum is there never shows: back-to-back intervals neither
-- dip nor overlap.

-- intervals(relation): the has_valid_interval() rows, with what a sweep needs of them; `part` is NULL where the relation
-- has none.
create or replace macro intervals(relation) as table
select run, source, rank, device, part, start_ns, end_ns
from (select null as part where false union all by name from query_table(relation))
where has_valid_interval(start_ns, end_ns);

-- lane_key(run, source, rank, device, part): the key of the timeline that a row is on. A hash, so that rows find their
-- timeline by one number; `part` is NULL where timelines have none.
create or replace macro lane_key(run, source, rank, device, part) as
    hash(run::varchar, source::varchar, rank::integer, device::integer, part);

-- lane_numbers(timelines): relation with one row a `key`, each with its `lane`, a number from 1; an error where two rows
-- have the same key. By number and time, which are 16 bytes together, events sort in two thirds of the time that key and
-- time take.
create or replace macro lane_numbers(timelines) as table
select (row_number() over (order by key))::integer as lane, * exclude (alike)
from (select *, count(*) over (partition by key) as alike from query_table(timelines))
where case when alike > 1 then error('two timelines have the same hash; select one run or rank') else true end;

-- lanes(relation): the (run, source, rank, device, part) that occur, with their first start and last end, each with its key
-- and its number.
create or replace macro lanes(relation) as table
with _keyed as (
    select
        lane_key(run, source, rank, device, part) as key,
        run, source, rank, device, part,
        min(start_ns) as first_ns,
        max(end_ns) as last_ns
    from intervals(relation)
    group by run, source, rank, device, part
)
from lane_numbers('_keyed');

-- clocks(lanes): the (run, source, rank, device) of lanes, with first start and last end, each with its key and its number,
-- here `clock`.
create or replace macro clocks(lanes) as table
with _keyed as (
    select
        lane_key(run, source, rank, device, null) as key,
        run, source, rank, device,
        min(first_ns) as first_ns,
        max(last_ns) as last_ns
    from query_table(lanes)
    group by run, source, rank, device
)
select lane as clock, * exclude (lane)
from lane_numbers('_keyed');

-- with_clock(lanes, clocks): lanes, each with the number of its clock; first_ns and last_ns are those of the clock.
create or replace macro with_clock(lanes, clocks) as table
select l.lane, l.key, c.clock, l.run, l.rank, l.device, l.part, c.first_ns, c.last_ns
from query_table(lanes) as l
join query_table(clocks) as c on lane_key(l.run, l.source, l.rank, l.device, null) = c.key;

-- with_lane(relation, lanes): the has_valid_interval() rows of a relation, with all of its columns, the number of their lane, and
-- middle_ns, where the lane's time is cut in halves.
create or replace macro with_lane(relation, lanes) as table
select l.lane, l.first_ns + (l.last_ns - l.first_ns) // 2 as middle_ns, r.*
from (select null as part where false union all by name from query_table(relation)) as r
join query_table(lanes) as l on lane_key(r.run, r.source, r.rank, r.device, r.part) = l.key
where has_valid_interval(r.start_ns, r.end_ns);

-- early_half(rows): what of rows (lane, middle_ns, start_ns, end_ns, and any others) lies before the middle of their lane. A sweep goes
-- through ordered rows on one core: where only sums are needed, two sweeps of half of the time each use two. Rows of no length
-- at the middle are in neither half.
create or replace macro early_half(rows) as table
select * exclude (middle_ns) replace (least(end_ns, middle_ns) as end_ns) from query_table(rows) where start_ns < middle_ns;

-- late_half(rows): what of rows as of early_half() lies behind the middle of their lane.
create or replace macro late_half(rows) as table
select * exclude (middle_ns) replace (greatest(start_ns, middle_ns) as start_ns) from query_table(rows) where end_ns > middle_ns;

-- running_depth(events): the running sum of `step` over events (lane, at_ns, step). A row is one stretch of time between two
-- events of its lane that are not at the same instant; `depth` is the sum in it.
-- The windows have no order of their own, so DuckDB streams the ordered events through them: three times as fast as
-- `partition by lane order by at_ns`. In a lane the steps add up to 0, so none reaches into the next one.
create or replace macro running_depth(events) as table
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

-- sweep(relation, lanes): how many rows of a lane run at once, the starts so far less the ends so far. A row is one stretch of
-- time between two events of its lane. DuckDB counts rows under a condition in an eighth of the time of a running sum.
create or replace macro sweep(relation, lanes) as table
with _rows as (
    select lane, start_ns, end_ns from with_lane(relation, lanes)
),
_events as (
    select lane, start_ns as at_ns, true as is_start from _rows
    union all
    select lane, end_ns, false from _rows
),
_counts as (
    select
        lane, at_ns,
        lead(lane) over () as next_lane,
        lead(at_ns) over () as next_ns,
        count(*) filter (is_start) over (rows between unbounded preceding and current row) as starts,
        count(*) filter (not is_start) over (rows between unbounded preceding and current row) as ends
    from (select lane, at_ns, is_start from _events order by lane, at_ns)
)
select lane, at_ns as start_ns, next_ns as end_ns, next_ns - at_ns as dur_ns, (starts - ends)::integer as depth
from _counts
where lane = next_lane and next_ns > at_ns;

-- depth(relation): how many rows of the relation run at once. A row is one stretch of time between two events.
create or replace macro depth(relation) as table
with _lanes as materialized (
    from lanes(relation)
)
select run, source, rank, device, part, start_ns, end_ns, dur_ns, depth
from sweep(relation, '_lanes')
join _lanes using (lane);

-- concurrency(relation): time in which at least one row runs (the measure of the union), and in which at least two do.
-- A row is one run, rank, device and part.
create or replace macro concurrency(relation) as table
with _lanes as materialized (
    from lanes(relation)
),
_sums as (
    select
        lane,
        sum(dur_ns) filter (depth >= 1) as busy_ns,
        sum(dur_ns) filter (depth >= 2) as concurrent_ns,
        max(depth) as max_concurrent
    from sweep(relation, '_lanes')
    group by lane
)
select
    run, rank, device, part,
    as_bigint(coalesce(sum(busy_ns), 0)) as busy_ns,
    as_bigint(coalesce(sum(concurrent_ns), 0)) as concurrent_ns,
    coalesce(max(max_concurrent), 0) as max_concurrent
from _lanes
left join _sums using (lane)
group by run, rank, device, part;

-- union_pieces(rows): what each row of rows (lane, start_ns, end_ns) adds to the union of those that began before it on its
-- lane, a piece of time from its start on, which may be empty. Rows in the order of their starts need no events: a piece
-- reaches to the latest end so far, or to the next start. Each lane is 2^64 above the one before, so that an end in another
-- lane is never the latest of this one.
create or replace macro union_pieces(rows) as table
with _placed as (
    select lane, start_ns, (lane::hugeint << 64) + start_ns as start_at, (lane::hugeint << 64) + end_ns as end_at
    from (select lane, start_ns, end_ns from query_table(rows) order by lane, start_ns)
)
select
    lane, start_ns,
    (least(
        max(end_at) over (rows between unbounded preceding and current row),
        lead(start_at, 1, 170141183460469231731687303715884105727) over ()
    ) - start_at)::bigint as dur_ns
from _placed;

-- union_times(rows): of each lane of rows (lane, start_ns, end_ns) the measure of their union.
create or replace macro union_times(rows) as table
select lane, sum(dur_ns) as busy_ns
from union_pieces(rows)
group by lane;

-- merged(rows): the union of rows (lane, start_ns, end_ns) as intervals that neither overlap nor touch, in one ordered pass,
-- lane above lane as in union_pieces(). An interval begins at a row that no earlier one reaches, and ends at the latest end
-- before the next such row: behind all rows there is one more, on a lane of its own, that is left out.
create or replace macro merged(rows) as table
with _placed as (
    select lane, start_ns, (lane::hugeint << 64) + start_ns as start_at, (lane::hugeint << 64) + end_ns as end_at
    from (
        select lane, start_ns, end_ns from query_table(rows)
        union all
        select 2147483647, 0, 0
        order by lane, start_ns
    )
),
_reached as (
    select
        lane, start_ns, start_at,
        max(end_at) over (rows between unbounded preceding and current row) as latest
    from _placed
),
_begun as (
    select lane, start_ns, before
    from (select lane, start_ns, start_at, lag(latest) over () as before from _reached)
    where coalesce(start_at > before, true)
)
select lane, start_ns, end_ns
from (select lane, start_ns, (lead(before) over () - (lane::hugeint << 64))::bigint as end_ns from _begun)
where lane < 2147483647;

-- busy(relation): time in which at least one row runs, the measure of the union: half the work of concurrency().
-- A row is one run, rank, device and part.
create or replace macro busy(relation) as table
with _lanes as materialized (
    from lanes(relation)
),
_rows as (
    select lane, start_ns, end_ns from with_lane(relation, '_lanes')
)
select run, rank, device, part, as_bigint(sum(busy_ns)) as busy_ns
from union_times('_rows')
join _lanes using (lane)
group by run, rank, device, part;

-- windows(relation): first start to last end, summed over the sources. A row is one run, rank and device.
create or replace macro windows(relation) as table
with _source_windows as (
    select run, source, rank, device, max(end_ns) - min(start_ns) as window_ns
    from intervals(relation)
    group by run, source, rank, device
)
select run, rank, device, as_bigint(sum(window_ns)) as window_ns
from _source_windows
group by run, rank, device;

-- clock_instants(rows, covers): instants (lane, at_ns, step) of rows (clock, lane, start_ns, end_ns), 1 at the start and -1 at
-- the end, each with clock_ns, the time so far in which one of covers (clock, start_ns, end_ns) ran. One pass over starts of
-- covers and instants of rows, as in union_pieces().
create or replace macro clock_instants(rows, covers) as table
with _instants as (
    select clock, start_ns as at_ns, null::bigint as end_ns, lane, 1 as step from query_table(rows)
    union all
    select clock, end_ns, null, lane, -1 from query_table(rows)
    union all
    select clock, start_ns, end_ns, null, null from query_table(covers)
),
_placed as (
    select
        lane, at_ns, step,
        (clock::hugeint << 64) + at_ns as start_at,
        case when lane is null then (clock::hugeint << 64) + end_ns else 0 end as end_at
    from (select clock, at_ns, end_ns, lane, step from _instants order by clock, at_ns)
),
_covered as (
    select
        lane, at_ns, step,
        (greatest(
            least(
                max(end_at) over (rows between unbounded preceding and current row),
                lead(start_at, 1, 170141183460469231731687303715884105727) over ()
            ),
            start_at
        ) - start_at)::bigint as covered_ns
    from _placed
),
_clocked as (
    select
        lane, at_ns, step,
        sum(covered_ns) over (rows between unbounded preceding and current row) - covered_ns as clock_ns
    from _covered
)
from _clocked
where lane is not null;

-- clocked_times(instants): of each lane of instants as clock_instants() has them the time in which a row ran, busy_ns, and the
-- part of it in which a cover did, inside_ns.
create or replace macro clocked_times(instants) as table
with _stretches as (
    select
        lane,
        lead(at_ns) over () - at_ns as dur_ns,
        lead(clock_ns) over () - clock_ns as inside_ns,
        sum(step) over (rows between unbounded preceding and current row) as depth
    from (select lane, at_ns, step, clock_ns from query_table(instants) order by lane, at_ns)
)
select
    lane,
    sum(dur_ns) filter (depth > 0) as busy_ns,
    sum(inside_ns) filter (depth > 0) as inside_ns
from _stretches
group by lane;

-- clip_to(relation, cover): of each part of the relation the measure of its union, and of what of it lies inside the union
-- of the cover. A row is one run, rank, device and part. The cover is swept once, and its clock, the time so far in which
-- it ran, is read at the events of the parts. Both sweeps stream as in running_depth(); at the end of a lane nothing runs,
-- so no time between two lanes counts. Each half of the time is swept apart, as early_half() describes.
create or replace macro clip_to(relation, cover) as table
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
    select key, lane, clock, first_ns + (last_ns - first_ns) // 2 as middle_ns from _timelines
),
_clock_keys as (
    select key, clock, first_ns + (last_ns - first_ns) // 2 as middle_ns from _clocks
),
_parts as materialized (
    select clock, lane, middle_ns, start_ns, end_ns
    from (select lane_key(run, source, rank, device, part) as key, start_ns, end_ns from intervals(relation))
    join hint_small('_lane_keys') using (key)
),
_covers as materialized (
    select clock, middle_ns, start_ns, end_ns
    from (select lane_key(run, source, rank, device, null) as key, start_ns, end_ns from intervals(cover))
    join hint_small('_clock_keys') using (key)
),
_early_parts as not materialized (from early_half('_parts')),
_early_covers as not materialized (from early_half('_covers')),
_late_parts as not materialized (from late_half('_parts')),
_late_covers as not materialized (from late_half('_covers')),
_early_instants as (
    from clock_instants('_early_parts', '_early_covers')
),
_late_instants as (
    from clock_instants('_late_parts', '_late_covers')
),
_sums as (
    select lane, sum(busy_ns) as busy_ns, sum(inside_ns) as inside_ns
    from (
        from clocked_times('_early_instants')
        union all
        from clocked_times('_late_instants')
    )
    group by lane
)
select
    run, rank, device, part,
    as_bigint(coalesce(sum(busy_ns), 0)) as busy_ns,
    as_bigint(coalesce(sum(inside_ns), 0)) as inside_ns
from _timelines
left join _sums using (lane)
group by run, rank, device, part;

-- cover_clocks(relation, cover): the has_valid_interval() rows of a relation by their `id`, with start_clock_ns and end_clock_ns,
-- the time so far in which the cover ran at their start and end: of any of their parts, clip_to_clocks() needs no cover.
create or replace macro cover_clocks(relation, cover) as table
with _lanes as materialized (
    from lanes(relation)
),
_rows as (
    select lane as clock, id as lane, start_ns, end_ns from with_lane(relation, '_lanes')
),
_covers as (
    select lane as clock, start_ns, end_ns
    from (select lane_key(run, source, rank, device, null) as key, start_ns, end_ns from intervals(cover))
    join hint_small('_lanes') using (key)
)
select
    lane as id,
    as_bigint(max(clock_ns) filter (step = 1)) as start_clock_ns,
    as_bigint(max(clock_ns) filter (step = -1)) as end_clock_ns
from clock_instants('_rows', '_covers')
group by lane;

-- clip_to_clocks(relation): clip_to() of a relation whose rows have start_clock_ns and end_clock_ns of cover_clocks().
create or replace macro clip_to_clocks(relation) as table
with _lanes as materialized (
    from lanes(relation)
),
_rows as materialized (
    select lane, start_ns, end_ns, start_clock_ns, end_clock_ns from with_lane(relation, '_lanes')
),
_instants as (
    select lane, start_ns as at_ns, 1 as step, start_clock_ns as clock_ns from _rows
    union all
    select lane, end_ns, -1, end_clock_ns from _rows
)
select
    run, rank, device, part,
    as_bigint(coalesce(sum(busy_ns), 0)) as busy_ns,
    as_bigint(coalesce(sum(inside_ns), 0)) as inside_ns
from clocked_times('_instants')
join _lanes using (lane)
group by run, rank, device, part;
