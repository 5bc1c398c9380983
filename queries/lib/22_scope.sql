-- What a scope leaves out of a device's time, and what it does not choose.

-- process_key(run, source, rank, pid), thread_key(run, source, rank, pid, tid): the numbers by which a scope knows processes and
-- threads; 0 is no thread.
create or replace macro process_key(run, source, rank, pid) as
    case when pid is null then hash(run, source, rank) else hash(run, source, rank, pid) end;
create or replace macro thread_key(run, source, rank, pid, tid) as
    case when tid is null then 0::ubigint else hash(run, source, rank, pid, tid) end;

-- path_scope: what a scope means for paths through the whole recording, which `tracelab.paths.scope` reads; no row without one.
-- Steps and streams are spans of numbers; the ranges of --within are stretches of processes and threads, in bytes.
create or replace view path_scope as
select
    null::bigint[][] as steps, null::bigint[][] as streams, false as is_timed, false as is_linked, false as is_after_start,
    true as is_by_launch, false as is_within, null::blob as of_process, null::blob as of_thread, null::blob as anywhere
where false;
comment on view path_scope is 'the scope, as paths through the whole recording read it';

-- scope_times: where a scope of times begins and ends by the clock of each source, NULL where it has no such end.
create or replace view scope_times as
select null::varchar as run, null::varchar as source, null::bigint as from_ns, null::bigint as to_ns where false;
comment on view scope_times is 'one source, and the times of the scope on its clock';

-- recorded_kernels, recorded_annotations, recorded_ops, recorded_api_calls: the rows of a table, in a scope or not; `in_scope` states which.
create or replace view recorded_kernels as
select *, true as in_scope from kernels
union all by name
select *, false as in_scope from left_out_kernels;
comment on view recorded_kernels is 'one kernel, in the scope or not';
create or replace view recorded_annotations as
select *, true as in_scope from annotations
union all by name
select *, false as in_scope from left_out_annotations;
comment on view recorded_annotations is 'one range, in the scope or not';
create or replace view recorded_ops as
select *, true as in_scope from ops
union all by name
select *, false as in_scope from left_out_ops;
comment on view recorded_ops is 'one op, in the scope or not';
create or replace view recorded_api_calls as
select *, true as in_scope from api_calls
union all by name
select *, false as in_scope from left_out_api_calls;
comment on view recorded_api_calls is 'one API call, in the scope or not';

-- out_of_scope_activity: the rows of gpu_activity that a scope leaves out; none where a session has no scope.
create or replace view out_of_scope_activity as
select run, source, rank, pid, device, context, stream, 'kernel' as kind, name, start_ns, dur_ns, end_ns, correlation from left_out_kernels
union all
select run, source, rank, pid, device, context, stream, 'memcpy', direction, start_ns, dur_ns, end_ns, correlation from left_out_memcpys
union all
select run, source, rank, pid, device, context, stream, 'memset', memory, start_ns, dur_ns, end_ns, correlation from left_out_memsets
union all
select run, source, rank, pid, device, context, stream, 'graph', name, start_ns, dur_ns, end_ns, correlation from left_out_graph_launches;
comment on view out_of_scope_activity is 'one row of gpu_activity that the scope leaves out';

-- unscoped_activity: the rows of gpu_activity, in a scope or not, as `in_scope` states: with the columns that both have.
create or replace view unscoped_activity as
select run, source, rank, pid, device, context, stream, kind, name, start_ns, dur_ns, end_ns, correlation, true as in_scope
from gpu_activity
union all
select *, false from out_of_scope_activity;
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

-- scope_solo_time(relation, others): solo_time() of the parts of a relation, alone where no other part runs, in the scope or not.
-- `others` are rows outside of the scope (run, source, rank, device, part, start_ns, end_ns); one of a part beside the relation's
-- rows of the same part does not matter. alone_ns is the time in which rows of one part alone run, less that in which of these
-- only others do; any_ns and window_ns are of the relation.
create or replace macro scope_solo_time(relation, others) as table
with _beside as materialized (  -- mostly none: then nothing is swept again
    select run, source, rank, device, part, start_ns, end_ns from out_of_scope_rows(relation, others)
),
_split as materialized (
    select run, source, rank, device, {'part': part, 'is_other': false} as part, start_ns, end_ns
    from (from query_table(relation) semi join _beside using (run, rank))
    union all
    select run, source, rank, device, {'part': part, 'is_other': true} as part, start_ns, end_ns from _beside
),
_whole as not materialized (
    select * replace (part.part as part) from _split
),
_of_others as (
    select run, rank, device, part.part as part, alone_ns from solo_time('_split') where part.is_other
)
select s.* replace (
    as_bigint(case when w.run is null then s.alone_ns else w.alone_ns - coalesce(o.alone_ns, 0) end) as alone_ns
)
from solo_time(relation) as s
left join solo_time('_whole') as w
    on s.run = w.run and s.rank = w.rank and s.device is not distinct from w.device and s.part is not distinct from w.part
left join _of_others as o
    on s.run = o.run and s.rank = o.rank and s.device is not distinct from o.device and s.part is not distinct from o.part;
