-- The rows of one run and rank, or of all where these are NULL, as queries about what launched what read them.

-- filtered_calls(of_run, of_rank): API calls, with what links them to the GPU rows that they launched. In a scope of executions
-- also those outside of it, which launch rows of it.
create or replace macro filtered_calls(of_run, of_rank) as table
select run, source, rank, pid, tid, name, api, start_ns, end_ns, correlation
from (from api_calls union all from around_api_calls)
where matches(run, of_run) and matches(rank, of_rank);

-- scope_ops(of_run, of_rank): ops. In a scope of executions also those outside of it, which launch rows of it.
create or replace macro scope_ops(of_run, of_rank) as table
from (from ops union all from around_ops)
where matches(run, of_run) and matches(rank, of_rank);

-- filtered_activity(of_run, of_rank): GPU rows, numbered; gpu_ns is their duration, 0 where they have no valid one.
create or replace macro filtered_activity(of_run, of_rank) as table
select
    row_number() over () as id, run, source, rank, pid, device, correlation, external_id, start_ns, end_ns, kind, name,
    stream, graph_node,
    case when has_valid_interval(start_ns, end_ns) then dur_ns else 0 end as gpu_ns
from gpu_activity
where matches(run, of_run) and matches(rank, of_rank);

-- kernel_kinds(executions): the runs, sources, ranks, processes, devices and names that kernels have, numbered. A million kernels have
-- some hundred of them, and a number takes less memory than the six columns.
create or replace macro kernel_kinds(executions) as table
select (row_number() over ())::integer as kind, run, source, rank, pid, device, name
from (
    select run, source, rank, pid, device, name
    from query_table(executions)
    group by run, source, rank, pid, device, name
    having count(*) > 0  -- always so; but DuckDB then takes the kinds for few, and builds no hash table on the kernels
);

-- works_of_kinds(executions, kinds): kernels with the number of their kernel_kinds() in place of its columns, numbered.
create or replace macro works_of_kinds(executions, kinds) as table
select
    row_number() over () as id, k.kind, e.correlation, e.external_id, e.dur_ns, e.graph_node, e.start_ns, e.end_ns, e.stream
from query_table(executions) as e
join query_table(kinds) as k
    on e.run = k.run and e.source = k.source and e.rank = k.rank and e.name is not distinct from k.name
    and e.pid is not distinct from k.pid and e.device is not distinct from k.device;

-- launched_works(works, kinds): works_of_kinds() as linked_points() takes them.
create or replace macro launched_works(works, kinds) as table
select
    w.id, k.run, k.source, k.rank, k.pid, k.device, w.correlation, w.external_id, 'kernel' as kind, w.graph_node, w.start_ns,
    w.end_ns, w.stream
from query_table(works) as w
join hint_small(kinds) as k using (kind);

-- filtered_ops(of_run, of_rank): ops of the host, numbered. Those of the backward pass name the thread of their forward op.
create or replace macro filtered_ops(of_run, of_rank) as table
select
    row_number() over () as id, run, source, rank, pid, tid, name, start_ns, end_ns, external_id, sequence_number,
    coalesce(forward_tid, 0) > 0 as is_backward
from ops
where matches(run, of_run) and matches(rank, of_rank);

-- around_captures(relation, replays): the rows of a relation (run, source, pid, tid, start_ns, end_ns, and any others, which stay)
-- that were open on the thread of a capture of known_replays() while it captured.
create or replace macro around_captures(relation, replays) as table
select *
from query_table(relation) as r
where exists (
    from query_table(replays) as c
    where
        r.run = c.capture_run and r.source = c.capture_source and r.pid is not distinct from c.capture_pid
        and r.tid is not distinct from c.capture_tid and r.start_ns < c.end_ns and r.end_ns > c.begin_ns
);

-- naming_rows(everywhere, left_out, launching, of_run, of_rank, replays): the rows of a table that are none of the scope, run and rank, but
-- name its GPU rows: those around_captures(), and in a scope of executions all rows outside of it. Takes the views of all of the
-- table's rows, of those left out, and of those that may launch rows of the scope.
create or replace macro naming_rows(everywhere, left_out, launching, of_run, of_rank, replays) as table
with _other_rows as not materialized (
    from query_table(everywhere) where not (matches(run, of_run) and matches(rank, of_rank))
    union all
    from query_table(left_out) where matches(run, of_run) and matches(rank, of_rank) and not exists (from query_table(launching))
)
from around_captures('_other_rows', replays)
union all
from query_table(launching) where matches(run, of_run) and matches(rank, of_rank);

-- naming_ops(of_run, of_rank, replays): naming_rows() of ops. Columns as of the table.
create or replace macro naming_ops(of_run, of_rank, replays) as table
from naming_rows('unscoped_ops', 'left_out_ops', 'around_ops', of_run, of_rank, replays);

-- naming_frames(of_run, of_rank, replays): naming_rows() of Python frames.
create or replace macro naming_frames(of_run, of_rank, replays) as table
from naming_rows(
    'unscoped_python_frames', 'left_out_python_frames', 'around_python_frames', of_run, of_rank, replays
);

-- surrounding_ops(of_run, of_rank, replays): filtered_ops(), and those where known_replays() were captured. Without a scope: what is
-- around the rows of one may lie outside of it.
create or replace macro surrounding_ops(of_run, of_rank, replays) as table
with _other_ops as not materialized (
    from unscoped_ops where not (matches(run, of_run) and matches(rank, of_rank))
)
select
    row_number() over () as id, run, source, rank, pid, tid, name, start_ns, end_ns, external_id, sequence_number,
    coalesce(forward_tid, 0) > 0 as is_backward
from (
    from unscoped_ops where matches(run, of_run) and matches(rank, of_rank)
    union all
    from around_captures('_other_ops', replays)
);
