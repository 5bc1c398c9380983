-- What runs inside what on a thread, and which call launched what on a device.
--
-- A relation here has run, source, pid, tid, id (a number of its own for each row), start_ns, end_ns. A thread is a
-- (run, source, pid, tid). Rows that are not measured() have no place in time and are left out.
-- A row runs from its start to before its end; one without duration is a point, which may lie inside others and holds
-- none. Of rows that begin together the longer one holds the shorter one; of equal ones the smaller id holds the larger.

-- threads(relation): the threads that occur, numbered: one number sorts faster than four columns.
create or replace macro threads(relation) as table
select (row_number() over (order by run, source, pid, tid))::integer as thread, run, source, pid, tid
from (select distinct run, source, pid, tid from query_table(relation));

-- stacked(relation): rows with thread, id, start_ns, end_ns, each with the row below it on its thread's stack. A row of
-- the answer is a row of the relation: `tree` is the number of the outermost row, `place` its number in the order of the
-- starts. One running sum over starts and ends gives the depth (as in swept(), without an order of its own), and the
-- parent at depth d is the row of depth d - 1 that began last. It is exact where no row `crosses` its parent's end; if
-- any does, at least one row of the same tree says so.
create or replace macro stacked(relation) as table
with _events as (
    select thread, start_ns as at_ns, id, start_ns, end_ns, (end_ns > start_ns)::integer as step
    from query_table(relation)
    union all
    select thread, end_ns, null, null, null, -1
    from query_table(relation)
    where end_ns > start_ns
),
_steps as (
    select
        thread, id, start_ns, end_ns, step,
        row_number() over () as place,
        sum(step) over (rows between unbounded preceding and current row) as depth
    from (
        select thread, at_ns, id, start_ns, end_ns, step
        from _events
        order by thread, at_ns, id is not null, end_ns desc, id  -- ends before starts, a point last
    )
),
_rows as materialized (
    select
        thread, id, start_ns, end_ns, place,
        (depth - step + 1)::integer as depth,
        sum((depth = step)::integer) over (rows between unbounded preceding and current row) as tree
    from _steps
    where id is not null
)
select
    r.thread, r.id, r.start_ns, r.end_ns, r.place, r.depth, r.tree,
    p.id as parent,
    coalesce(r.end_ns > p.end_ns, false) as crosses
from _rows as r
asof left join _rows as p on r.thread = p.thread and r.depth - 1 = p.depth and r.place >= p.place;

-- nested(relation): every measured() row with its parent, the innermost row that holds it on its thread (NULL: none
-- does), its depth, from 1, and the number of its thread. A row that begins inside another and ends after it `crosses`:
-- it has neither parent nor depth and holds nothing, as if it ran elsewhere. Only trees in which a row crosses are looked
-- at twice.
create or replace macro nested(relation) as table
with _threaded as materialized (
    select thread, id, start_ns, end_ns
    from query_table(relation) as r
    join threads(relation) as t
        on r.run = t.run and r.source = t.source and r.pid is not distinct from t.pid and r.tid is not distinct from t.tid
    where measured(start_ns, end_ns)
),
_stacked as materialized (from stacked('_threaded')),
_damaged as materialized (select distinct tree from _stacked where crosses),
_crossing as materialized (
    select thread, id, start_ns, end_ns
    from (
        select
            thread, id, start_ns, end_ns, place,
            min(place) over (
                partition by tree order by end_ns
                range between end_ns - start_ns - 1 preceding and 1 preceding
            ) as first_place
        from _stacked
        where end_ns > start_ns and tree in (from _damaged)
    )
    where first_place < place  -- a row that began before this one ends while it runs
),
_mended as (
    select thread, id, start_ns, end_ns
    from _stacked
    where tree in (from _damaged) and id not in (select id from _crossing)
)
select thread, id, start_ns, end_ns, parent, depth, false as crosses from _stacked where tree not in (from _damaged)
union all
select thread, id, start_ns, end_ns, parent, depth, false from stacked('_mended')
union all
select thread, id, start_ns, end_ns, null, null, true from _crossing;

-- innermost(relation, points): each point (run, source, pid, tid, id, at_ns) with the innermost row of the relation that
-- holds it on its thread, NULL where none does; so are rows that cross. Only the rows are nested: which of them is the
-- innermost changes where one begins or ends, and a point reads the last change before it.
create or replace macro innermost(relation, points) as table
with _rows as materialized (
    select thread, id, start_ns, end_ns, parent, depth from nested(relation) where not crosses and end_ns > start_ns
),
_changes as (  -- of those of one instant the deepest start counts, and without one the outermost end
    select thread, at_ns, max_by(id, place) as id
    from (
        select thread, start_ns as at_ns, depth as place, id from _rows
        union all
        select thread, end_ns, -depth, coalesce(parent, 0) from _rows
    )
    group by thread, at_ns
),
_points as (
    select p.id, p.at_ns, t.thread
    from query_table(points) as p
    left join threads(relation) as t
        on p.run = t.run and p.source = t.source and p.pid is not distinct from t.pid and p.tid is not distinct from t.tid
)
select p.id, nullif(c.id, 0) as parent
from _points as p
asof left join _changes as c on p.thread = c.thread and p.at_ns >= c.at_ns;

-- outermost(relation): the ids of the measured() rows that lie in no other row of the same `part` (of any type) on their
-- thread; a recursive call is in the call that began it. The running maximum holds part and end in one number, so that it
-- starts anew with each part.
create or replace macro outermost(relation) as table
with _parts as materialized (
    select (row_number() over (order by run, source, pid, tid, part))::hugeint << 64 as base, run, source, pid, tid, part
    from (select distinct run, source, pid, tid, part from query_table(relation))
),
_rows as (
    select id, base, start_ns, end_ns, base + end_ns::hugeint + 4611686018427387904 as reach
    from query_table(relation) as r
    join _parts as p
        on r.run = p.run and r.source = p.source and r.pid is not distinct from p.pid and r.tid is not distinct from p.tid
        and r.part is not distinct from p.part
    where measured(start_ns, end_ns)
),
_reached as (
    select
        id, reach, start_ns, end_ns,
        max(reach) over (rows between unbounded preceding and current row) as highest
    from (select id, reach, start_ns, end_ns from _rows order by base, start_ns, end_ns desc, id)
)
select id
from (select id, reach, start_ns, end_ns, lag(highest) over () as before from _reached)
where before is null or before < reach + (start_ns = end_ns)::integer;

-- summed_within(ranges, points): what lies in each range (run, source, pid, tid, id, start_ns, end_ns) of the points (run,
-- source, pid, tid, at_ns, device, gpu_ns, gpu_rows) of its thread. A row is one measured() range and device that its
-- thread has points of: gpu_ns and gpu_rows of the points from its start to before its end. The points are summed once in
-- the order of time; a range is the difference of two readings of that sum, so ranges may nest or overlap as they like.
create or replace macro summed_within(ranges, points) as table
with _lanes as materialized (
    select (row_number() over (order by run, source, pid, tid, device))::integer as lane, run, source, pid, tid, device
    from (select distinct run, source, pid, tid, device from query_table(points))
),
_ranges as (
    select id, lane, start_ns, end_ns
    from query_table(ranges) as r
    join _lanes as l
        on r.run = l.run and r.source = l.source and r.pid is not distinct from l.pid and r.tid is not distinct from l.tid
    where measured(start_ns, end_ns)
),
_instants as (
    select lane, start_ns as at_ns, false as is_point, id, -1 as sign, 0::bigint as gpu_ns, 0::bigint as gpu_rows from _ranges
    union all
    select lane, end_ns, false, id, 1, 0, 0 from _ranges
    union all
    select lane, at_ns, true, null, null, gpu_ns, gpu_rows
    from query_table(points) as p
    join _lanes as l
        on p.run = l.run and p.source = l.source and p.pid is not distinct from l.pid
        and p.tid is not distinct from l.tid and p.device is not distinct from l.device
),
_readings as (  -- a point counts from just behind its instant on
    select
        id, lane, sign,
        sum(gpu_ns) over so_far as gpu_ns,
        sum(gpu_rows) over so_far as gpu_rows
    from (select lane, at_ns, is_point, id, sign, gpu_ns, gpu_rows from _instants order by lane, at_ns, is_point)
    window so_far as (rows between unbounded preceding and current row)
)
select s.id, l.device, s.gpu_ns, s.gpu_rows
from (
    select id, lane, sum(sign * gpu_ns) as gpu_ns, sum(sign * gpu_rows) as gpu_rows
    from _readings
    where id is not null
    group by id, lane
) as s
join _lanes as l using (lane);
