-- What runs inside what on a thread, and which call launched what on a device.
--
-- A relation here has run, source, pid, tid, id (a number of its own for each row), start_ns, end_ns. A thread is a
-- (run, source, pid, tid). Rows that are not has_valid_interval() have no place in time and are left out.
-- A row runs from its start to before its end; one without duration is a point, which may lie inside others and holds
-- none. Of rows that begin together the longer one holds the shorter one; of equal ones the smaller id holds the larger.

-- threads(relation): the threads that occur, numbered: one number sorts faster than four columns.
create or replace macro threads(relation) as table
select (row_number() over (order by run, source, pid, tid))::integer as thread, run, source, pid, tid
from (select distinct run, source, pid, tid from query_table(relation));

-- nesting_starts(relation): rows with thread, id, start_ns, end_ns in the order in which they begin: `place` is the number
-- in it, `depth` how many run then, itself with them, and `tree` the number of the outermost one. One running sum over
-- starts and ends gives the depth (as in running_depth(), without an order of its own). The parent of a row at depth d is
-- the row of depth d - 1 that began last: where it is the row before, it is `known`, and so is that the outermost have
-- none. A row `holds` others if the next one is deeper.
create or replace macro nesting_starts(relation) as table
with _events as (  -- an end comes before the starts of its instant, and a point after them
    select thread, start_ns as at_ns, end_ns, id
    from query_table(relation)
    union all
    select thread, end_ns, 9223372036854775807, null
    from query_table(relation)
    where end_ns > start_ns
),
_steps as (
    select
        thread, id, at_ns, end_ns,
        case when id is null then -1 else (end_ns > at_ns)::integer end as step,
        row_number() over () as place,
        sum(step) over (rows between unbounded preceding and current row) as running
    from (select thread, at_ns, end_ns, id from _events order by thread, at_ns, end_ns desc, id)
),
_rows as (
    select thread, id, at_ns as start_ns, end_ns, place, (running - step + 1)::integer as depth
    from _steps
    where id is not null
)
select
    thread, id, start_ns, end_ns, place, depth,
    sum((depth = 1)::integer) over (rows between unbounded preceding and current row) as tree,
    depth = 1 or lag(depth) over () < depth as known,
    lead(depth, 1, 0) over () > depth as holds,
    case when known and depth > 1 then lag(id) over () end as parent,
    coalesce(parent is not null and end_ns > lag(end_ns) over (), false) as crosses
from _rows;

-- resumed_parents(opened): the rows of nesting_starts() whose parent is not known, as they follow a deeper one, with their
-- parent.
create or replace macro resumed_parents(opened) as table
select
    r.thread, r.id, r.start_ns, r.end_ns, r.place, r.depth, r.tree,
    p.id as parent,
    r.end_ns > p.end_ns as crosses
from (from query_table(opened) where not known) as r
asof join (from query_table(opened) where holds) as p
    on r.thread = p.thread and r.depth - 1 = p.depth and r.place >= p.place;

-- call_stacks(opened, returned): the rows of both, each with the row below it on its thread's stack. It is exact where no
-- row `crosses` its parent's end; if any does, at least one row of the same tree has it set.
create or replace macro call_stacks(opened, returned) as table
select thread, id, start_ns, end_ns, place, depth, tree, parent, crosses
from query_table(opened)
where known
union all
from query_table(returned);

-- thread_nesting(relation): nesting() of has_valid_interval() rows with the number of their thread: thread, id, start_ns, end_ns.
create or replace macro thread_nesting(relation) as table
with _opened as materialized (from nesting_starts(relation)),
_returned as materialized (from resumed_parents('_opened')),
_stacked as not materialized (from call_stacks('_opened', '_returned')),
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
),
_opened_again as materialized (from nesting_starts('_mended')),
_returned_again as materialized (from resumed_parents('_opened_again'))
select thread, id, start_ns, end_ns, parent, depth, false as crosses from _stacked where tree not in (from _damaged)
union all
select thread, id, start_ns, end_ns, parent, depth, false from call_stacks('_opened_again', '_returned_again')
union all
select thread, id, start_ns, end_ns, null, null, true from _crossing;

-- nesting(relation): every has_valid_interval() row with its parent, the innermost row that holds it on its thread (NULL:
-- none does), its depth, from 1, and the number of its thread. A row that begins inside another and ends after it `crosses`:
-- it has neither parent nor depth and holds nothing, as if it ran elsewhere. Only trees in which a row crosses are looked
-- at twice.
create or replace macro nesting(relation) as table
with _threaded as materialized (
    select thread, id, start_ns, end_ns
    from query_table(relation) as r
    join threads(relation) as t
        on r.run = t.run and r.source = t.source and r.pid is not distinct from t.pid and r.tid is not distinct from t.tid
    where has_valid_interval(start_ns, end_ns)
)
from thread_nesting('_threaded');

-- innermost_nested(nest, relation, points): innermost() of a relation whose nesting() is at hand.
create or replace macro innermost_nested(nest, relation, points) as table
with _rows as materialized (
    select thread, id, start_ns, end_ns, parent, depth from query_table(nest) where not crosses and end_ns > start_ns
),
_changes as (  -- of those of one instant the deepest start counts, and without one the outermost end
    select thread, at_ns, arg_max_null(id, place) as id
    from (
        select thread, start_ns as at_ns, depth as place, id from _rows
        union all
        select thread, end_ns, -depth, parent from _rows
    )
    group by thread, at_ns
),
_points as (
    select p.id, p.at_ns, t.thread
    from query_table(points) as p
    join threads(relation) as t
        on p.run = t.run and p.source = t.source and p.pid is not distinct from t.pid and p.tid is not distinct from t.tid
)
select p.id, c.id as parent
from _points as p
asof join _changes as c on p.thread = c.thread and p.at_ns >= c.at_ns
where c.id is not null;

-- innermost(relation, points): of each point (run, source, pid, tid, id, at_ns) the innermost row of the relation that holds
-- it on its thread; points that none holds are left out, and rows that cross hold none. Only the rows are nested: which of
-- them is the innermost changes where one begins or ends, and a point reads the last change before it.
create or replace macro innermost(relation, points) as table
with _nest as materialized (from nesting(relation))
from innermost_nested('_nest', relation, points);

-- thread_innermost(relation, points): innermost() of rows (thread, id, start_ns, end_ns) and points (thread, id, at_ns) with the
-- number of their thread. Both are nested together, a point as a row without duration: faster than innermost() where
-- there are more rows than points. Ids are from -2^62 to below 2^62: one bit more states which of both a row is.
create or replace macro thread_innermost(relation, points) as table
with _rows_and_points as materialized (
    select thread, id * 2 as id, start_ns, end_ns from query_table(relation) where has_valid_interval(start_ns, end_ns)
    union all
    select thread, id * 2 + 1, at_ns, at_ns from query_table(points) where has_valid_interval(at_ns, at_ns)
)
select id >> 1 as id, parent >> 1 as parent from thread_nesting('_rows_and_points') where id & 1 = 1 and parent is not null;

-- innermost_of_many(relation, points): innermost() of more rows than points, in less time: it nests the points with the rows.
create or replace macro innermost_of_many(relation, points) as table
with _row_threads as materialized (
    from threads(relation)
),
_laned_rows as not materialized (
    select t.thread, r.id, r.start_ns, r.end_ns
    from query_table(relation) as r
    join hint_small('_row_threads') as t
        on r.run = t.run and r.source = t.source and r.pid is not distinct from t.pid and r.tid is not distinct from t.tid
),
_laned_points as not materialized (
    select t.thread, p.id, p.at_ns
    from query_table(points) as p
    join hint_small('_row_threads') as t
        on p.run = t.run and p.source = t.source and p.pid is not distinct from t.pid and p.tid is not distinct from t.tid
)
from thread_innermost('_laned_rows', '_laned_points');

-- lane_outermost(relation): the has_valid_interval() rows (lane, id, start_ns, end_ns) that lie in no other row of their lane. The
-- running maximum holds lane and end in one number, so that it starts anew with each lane.
create or replace macro lane_outermost(relation) as table
with _ordered as (
    select lane, id, start_ns, end_ns, (lane::hugeint << 64) + end_ns as reach
    from (
        select lane, start_ns, end_ns, id
        from query_table(relation)
        where has_valid_interval(start_ns, end_ns)
        order by lane, start_ns, end_ns desc, id
    )
),
_reached as (
    select *, max(reach) over (rows between unbounded preceding and current row) as highest from _ordered
)
select lane, id, start_ns, end_ns
from (select *, lag(highest) over () as before from _reached)
where before is null or before < reach + (start_ns = end_ns)::integer;

-- outermost(relation): the ids of the has_valid_interval() rows that lie in no other row of the same `part` (of any type)
-- on their thread; a recursive call is in the call that began it.
create or replace macro outermost(relation) as table
with _parts as materialized (
    select (row_number() over (order by run, source, pid, tid, part))::integer as lane, run, source, pid, tid, part
    from (select distinct run, source, pid, tid, part from query_table(relation))
),
_rows as (
    select p.lane, r.id, r.start_ns, r.end_ns
    from query_table(relation) as r
    join _parts as p
        on r.run = p.run and r.source = p.source and r.pid is not distinct from p.pid and r.tid is not distinct from p.tid
        and r.part is not distinct from p.part
)
select id from lane_outermost('_rows');

-- lane_summed_within(ranges, points): summed_within() of has_valid_interval() ranges (lane, id, start_ns, end_ns) and points (lane,
-- at_ns, gpu_ns, gpu_rows) that count in the same lane. A row is one lane and id; ranges with the same id are added up.
create or replace macro lane_summed_within(ranges, points) as table
with _instants as (
    select lane, start_ns as at_ns, false as is_point, id, -1 as sign, 0::bigint as gpu_ns, 0::bigint as gpu_rows
    from query_table(ranges)
    union all
    select lane, end_ns, false, id, 1, 0, 0 from query_table(ranges)
    union all
    select lane, at_ns, true, null, null, gpu_ns, gpu_rows from query_table(points)
),
_readings as (  -- a point counts from just behind its instant on
    select
        id, lane, sign,
        sum(gpu_ns) over so_far as gpu_ns,
        sum(gpu_rows) over so_far as gpu_rows
    from (select lane, at_ns, is_point, id, sign, gpu_ns, gpu_rows from _instants order by lane, at_ns, is_point)
    window so_far as (rows between unbounded preceding and current row)
)
select lane, id, sum(sign * gpu_ns) as gpu_ns, sum(sign * gpu_rows) as gpu_rows
from _readings
where id is not null
group by lane, id;

-- summed_within(ranges, points): what lies in each range (run, source, pid, tid, id, start_ns, end_ns) of the points (run,
-- source, pid, tid, at_ns, device, gpu_ns, gpu_rows) of its thread. A row is one has_valid_interval() range and device that
-- its thread has points of: gpu_ns and gpu_rows of the points from its start to before its end. The points are summed once
-- in the order of time; a range is the difference of two readings of that sum, so ranges may nest or overlap as they like.
create or replace macro summed_within(ranges, points) as table
with _lanes as materialized (
    select (row_number() over (order by run, source, pid, tid, device))::integer as lane, run, source, pid, tid, device
    from (select distinct run, source, pid, tid, device from query_table(points))
),
_ranges as (
    select lane, id, start_ns, end_ns
    from query_table(ranges) as r
    join _lanes as l
        on r.run = l.run and r.source = l.source and r.pid is not distinct from l.pid and r.tid is not distinct from l.tid
    where has_valid_interval(start_ns, end_ns)
),
_points as (
    select lane, at_ns, gpu_ns, gpu_rows
    from query_table(points) as p
    join _lanes as l
        on p.run = l.run and p.source = l.source and p.pid is not distinct from l.pid
        and p.tid is not distinct from l.tid and p.device is not distinct from l.device
)
select s.id, l.device, s.gpu_ns, s.gpu_rows
from lane_summed_within('_ranges', '_points') as s
join _lanes as l using (lane);

-- launching_ops(points, ops): the op that launched each row of with_calls(), whose id and external_id it has: of a relation
-- of ops (run, source, pid, tid, id, start_ns, end_ns, external_id) the innermost one on the thread of the call; without a
-- recorded call the op with the row's external_id. A row is one launched row, `id`, and the id of its op; others are left out.
create or replace macro launching_ops(points, ops) as table
with _called as (
    select id, run, source, pid, call_tid as tid, call_start_ns as at_ns
    from query_table(points)
    where call_start_ns is not null
),
_ops_by_id as (
    select run, source, pid, external_id, min(id) as op
    from query_table(ops)
    where external_id is not null
    group by run, source, pid, external_id
)
select id, parent as op from innermost(ops, '_called')
union all
select p.id, o.op
from query_table(points) as p
join _ops_by_id as o
    on p.run = o.run and p.source = o.source and p.pid is not distinct from o.pid and p.external_id = o.external_id
where p.call_start_ns is null;

-- forward_ops(ops): the forward op of each backward op, that which made its node of autograd's graph: of the ops with the node's
-- sequence number the one that began last, of several the innermost. The relation has run, source, pid, tid, id, start_ns,
-- end_ns, sequence_number, is_backward. A row is one backward op, `id`, and its forward op, `forward`, with run, source, pid,
-- tid and at_ns, where and when that began; those whose number several threads have are left out.
create or replace macro forward_ops(ops) as table
select b.id, f.place.id as forward, f.run, f.source, f.pid, f.place.tid as tid, f.place.start_ns as at_ns
from query_table(ops) as b
join (
    select
        run, source, pid, sequence_number,
        max_by({'id': id, 'tid': tid, 'start_ns': start_ns}, (start_ns, -end_ns, id)) as place
    from query_table(ops)
    where not is_backward and sequence_number is not null and has_valid_interval(start_ns, end_ns)
    group by run, source, pid, sequence_number
    having min(tid) is not distinct from max(tid)
) as f
    on b.run = f.run and b.source = f.source and b.pid is not distinct from f.pid and b.sequence_number = f.sequence_number
where b.is_backward;

-- backward_ops(ops): those that compute the backward pass of a forward op: with its sequence number.
create or replace macro backward_ops(ops) as table
select id, run, source, pid, tid, start_ns, end_ns
from query_table(ops)
where is_backward and sequence_number is not null;

-- innermost_backward(ops, points): of each point, as innermost() takes it, the innermost of backward_ops(). A row is one point,
-- `id`, and the op's id, `op`.
create or replace macro innermost_backward(ops, points) as table
with _backward_ops as materialized (
    from backward_ops(ops)
)
select id, parent as op from innermost('_backward_ops', points);

-- self_times(relation): the time of calls without the calls inside them, summed by `kind`, a number from 0 below 2^31: a million
-- calls have some hundred kinds. The relation has run, source, pid, tid, start_ns, end_ns. A row is one kind and the number of
-- its calls.
create or replace macro self_times(relation) as table
with _calls as materialized (  -- the last 31 bits of a call's id are its kind
    select (row_number() over () << 31) + kind as id, run, source, pid, tid, start_ns, end_ns
    from query_table(relation)
),
_nest as materialized (
    select id, end_ns - start_ns as dur_ns, parent from nesting('_calls')
)
select kind, sum(calls) as calls, sum(self_ns) as self_ns
from (
    select id & 2147483647 as kind, count(*) as calls, null as self_ns from _calls group by kind
    union all
    select id & 2147483647 as kind, 0, sum(dur_ns) from _nest group by kind
    union all
    select parent & 2147483647 as kind, 0, -sum(dur_ns) from _nest where parent is not null group by kind
)
group by kind;

-- launch_points(work, calls, ops): where on a thread each row of `work` (id, run, source, pid, correlation, external_id) was
-- launched: the start of its call (API calls: run, source, pid, tid, correlation, start_ns, end_ns), else of the op (run, source,
-- pid, tid, id, start_ns, external_id) with its external_id, whose id is then in `op`. A row is one launched row: id, run,
-- source, pid, tid, at_ns; others are left out.
create or replace macro launch_points(work, calls, ops) as table
with _launched as materialized (
    select id, run, source, pid, external_id, call_tid, call_start_ns from with_calls(work, calls)
),
_ops_by_id as (
    select run, source, pid, external_id, min(id) as op, arg_min_null(tid, id) as tid, arg_min_null(start_ns, id) as start_ns
    from query_table(ops)
    where external_id in (select external_id from _launched where call_start_ns is null)
    group by run, source, pid, external_id
)
select
    l.id, l.run, l.source, l.pid,
    case when l.call_start_ns is null then o.tid else l.call_tid end as tid,
    coalesce(l.call_start_ns, o.start_ns) as at_ns,
    o.op
from _launched as l
left join _ops_by_id as o
    on l.call_start_ns is null and l.run = o.run and l.source = o.source and l.pid is not distinct from o.pid
    and l.external_id = o.external_id
where l.call_start_ns is not null or o.op is not null;
