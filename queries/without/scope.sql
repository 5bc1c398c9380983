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

create or replace macro half_layer_sums(rows) as table
with _placed as not materialized (
    select
        lane, start_ns, end_ns,
        case
            when layer > 2 then error('layers above 2 are of rows outside of a scope, and this session has none')
            else 1 + 2 * layer
        end::tinyint as change
    from query_table(rows)
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
        count(*) filter (change in (1, 3)) over (rows between unbounded preceding and current row)
            > count(*) filter (change in (-1, -3)) over (rows between unbounded preceding and current row) as in_3,
        count(*) filter (change > 0) over (rows between unbounded preceding and current row)
            > count(*) filter (change < 0) over (rows between unbounded preceding and current row) as in_5,
        count(*) filter (change = 3) over (rows between unbounded preceding and current row)
            > count(*) filter (change = -3) over (rows between unbounded preceding and current row) as communicates,
        count(*) filter (change = 5) over (rows between unbounded preceding and current row)
            > count(*) filter (change = -5) over (rows between unbounded preceding and current row) as copies
    from (select lane, at_ns, change from _events order by lane, at_ns)
),
_sums as (
    select
        lane,
        sum(dur_ns) filter (in_1) as in_1_ns,
        sum(dur_ns) filter (in_3) as in_3_ns,
        sum(dur_ns) filter (in_5) as in_5_ns,
        sum(dur_ns) filter (communicates) as comm_ns,
        sum(dur_ns) filter (copies) as memory_ns
    from _states
    group by lane
)
select
    lane, in_1_ns,
    in_1_ns as in_2_ns,
    in_3_ns,
    in_3_ns as in_4_ns,
    in_5_ns,
    in_5_ns as in_6_ns,
    comm_ns, memory_ns,
    in_5_ns as busy_ns
from _sums;

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
