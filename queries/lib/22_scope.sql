-- What a scope leaves out of a device's time.

-- out_of_scope_activity: the rows of gpu_activity that a scope leaves out; none where a session has no scope.
create or replace view out_of_scope_activity as
select run, source, rank, pid, device, stream, 'kernel' as kind, name, start_ns, dur_ns, end_ns, correlation from left_out_kernels
union all
select run, source, rank, pid, device, stream, 'memcpy', direction, start_ns, dur_ns, end_ns, correlation from left_out_memcpys
union all
select run, source, rank, pid, device, stream, 'memset', memory, start_ns, dur_ns, end_ns, correlation from left_out_memsets
union all
select run, source, rank, pid, device, stream, 'graph', name, start_ns, dur_ns, end_ns, correlation from left_out_graph_launches;
comment on view out_of_scope_activity is 'one row of gpu_activity that the scope leaves out';

-- unscoped_activity: the rows of gpu_activity, in a scope or not: with the columns that both have.
create or replace view unscoped_activity as
select run, source, rank, pid, device, stream, kind, name, start_ns, dur_ns, end_ns, correlation from gpu_activity
union all
from out_of_scope_activity;
comment on view unscoped_activity is 'one row of gpu_activity, in the scope or not';

-- out_of_scope_rows(relation, others): the rows outside of the scope that ran in the window of a relation of GPU rows, from the
-- first start to the last end of a source's rows on a device, cut to that window. `others` is the view, or what a query
-- makes of it, with its columns.
create or replace macro out_of_scope_rows(relation, others) as table
with _windows as (
    select run, source, rank, device, min(start_ns) as first_ns, max(end_ns) as last_ns
    from query_table(relation)
    where has_valid_interval(start_ns, end_ns)
    group by run, source, rank, device
)
select o.* replace (greatest(o.start_ns, w.first_ns) as start_ns, least(o.end_ns, w.last_ns) as end_ns)
from query_table(others) as o
join _windows as w
    on o.run = w.run and o.source = w.source and o.rank = w.rank and o.device is not distinct from w.device
where has_valid_interval(o.start_ns, o.end_ns) and o.end_ns > w.first_ns and o.start_ns < w.last_ns;

-- out_of_scope_times(relation, others): the time in that window in which rows outside of the scope ran, and none of the relation.
-- A row is one run, rank and device; those without such rows are left out.
create or replace macro out_of_scope_times(relation, others) as table
with _others as (
    from out_of_scope_rows(relation, others)
),
_own as (
    select run, source, rank, device, start_ns, end_ns
    from (from query_table(relation) semi join query_table(others) using (run, source, rank))
),
_all as (
    from _own
    union all
    select run, source, rank, device, start_ns, end_ns from _others
)
select a.run, a.rank, a.device, as_bigint(a.busy_ns - o.busy_ns) as out_of_scope_ns
from busy('_all') as a
join busy('_own') as o on a.run = o.run and a.rank = o.rank and a.device is not distinct from o.device;

-- out_of_scope_stretches(lanes, others): the time in which rows with a layer from 0 to 2, as of out_of_scope_layers, ran on lanes
-- (lane, run, source, rank, device), as stretches of each layer that neither overlap nor touch: lane, layer, start_ns, end_ns.
create or replace macro out_of_scope_stretches(lanes, others) as table
with _on_lanes as (
    select 3 * l.lane + o.layer as lane, o.start_ns, o.end_ns
    from query_table(others) as o
    join hint_small(lanes) as l
        on o.run = l.run and o.source = l.source and o.rank = l.rank and o.device is not distinct from l.device
    where has_valid_interval(o.start_ns, o.end_ns)
)
select lane // 3 as lane, (lane % 3)::tinyint as layer, start_ns, end_ns from merged('_on_lanes');
