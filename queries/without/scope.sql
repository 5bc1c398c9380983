-- The macros and views of queries/lib that have to do with a scope, for a session without one, where they replace those of the same
-- names: nothing is out of a scope there. The rows are the same, and the plans of most queries half as large; DuckDB plans
-- all that a scope could leave out before it finds that there is none, which takes as long as a query of ten thousand rows.

create or replace view recorded_kernels as select *, true as in_scope from kernels;
create or replace view recorded_annotations as select *, true as in_scope from annotations;
create or replace view recorded_ops as select *, true as in_scope from ops;
create or replace view recorded_api_calls as select *, true as in_scope from api_calls;

create or replace view out_of_scope_activity as
select run, source, rank, pid, device, context, stream, 'kernel' as kind, name, start_ns, dur_ns, end_ns, correlation
from left_out_kernels;

create or replace view out_of_scope_layers as
select run, source, rank, device, 0::tinyint as layer, start_ns, end_ns from left_out_kernels;

create or replace view out_of_scope_classes as
select run, source, rank, device, null::varchar as class, start_ns, end_ns from left_out_kernels;

create or replace view unscoped_activity as
select run, source, rank, pid, device, context, stream, kind, name, start_ns, dur_ns, end_ns, correlation, true as in_scope
from gpu_activity;

create or replace macro out_of_scope_rows(relation, others) as table from query_table(others);

create or replace macro out_of_scope_times(relation, others) as table
select run, rank, device, 0::bigint as out_of_scope_ns from query_table(others);

create or replace macro out_of_scope_stretches(lanes, others) as table
select null::integer as lane, layer, start_ns, end_ns from query_table(others);

create or replace macro scope_solo_time(relation, others) as table from solo_time(relation);

create or replace macro scope_edge_rows(relation) as table
select run, source, rank, device, start_ns, end_ns from query_table(relation) where false;

create or replace macro scope_gaps(relation) as table select *, true as is_own from gaps(relation);

create or replace macro idle_outside(relation) as table
select run, source, rank, device, start_ns, end_ns from query_table(relation) where false;

create or replace macro scope_windows(relation) as table from windows(relation);

create or replace macro filtered_calls(of_run, of_rank) as table
select run, source, rank, pid, tid, name, api, start_ns, end_ns, correlation
from api_calls
where matches(run, of_run) and matches(rank, of_rank);

create or replace macro scope_ops(of_run, of_rank) as table
from ops
where matches(run, of_run) and matches(rank, of_rank);

create or replace macro naming_rows(everywhere, left_out, launching, of_run, of_rank, replays) as table
with _other_rows as not materialized (
    from query_table(everywhere) where not (matches(run, of_run) and matches(rank, of_rank))
)
from around_captures('_other_rows', replays);
