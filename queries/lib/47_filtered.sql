-- The rows of one run and rank, or of all where these are NULL, as queries about what launched what read them.

-- filtered_calls(of_run, of_rank): API calls, with what links them to the GPU rows that they launched.
create or replace macro filtered_calls(of_run, of_rank) as table
select run, source, rank, pid, tid, name, api, start_ns, end_ns, correlation
from api_calls
where matches(run, of_run) and matches(rank, of_rank);

-- filtered_activity(of_run, of_rank): GPU rows, numbered; gpu_ns is their duration, 0 where they have no valid one.
create or replace macro filtered_activity(of_run, of_rank) as table
select
    row_number() over () as id, run, source, rank, pid, device, correlation, external_id, start_ns, end_ns, kind, name,
    stream, graph_node,
    case when has_valid_interval(start_ns, end_ns) then dur_ns else 0 end as gpu_ns
from gpu_activity
where matches(run, of_run) and matches(rank, of_rank);

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

-- captured_rows(everywhere, left_out, of_run, of_rank, replays): the rows around_captures() of a table that are not among those
-- of this run and rank: of other ones, or outside of the scope. Takes the views of all of its rows, and of those left out.
create or replace macro captured_rows(everywhere, left_out, of_run, of_rank, replays) as table
with _other_rows as not materialized (
    from query_table(everywhere) where not (matches(run, of_run) and matches(rank, of_rank))
    union all
    from query_table(left_out) where matches(run, of_run) and matches(rank, of_rank)
)
from around_captures('_other_rows', replays);

-- captured_ops(of_run, of_rank, replays): captured_rows() of ops. Columns as of the table.
create or replace macro captured_ops(of_run, of_rank, replays) as table
from captured_rows('unscoped_ops', 'left_out_ops', of_run, of_rank, replays);

-- captured_frames(of_run, of_rank, replays): captured_rows() of Python frames.
create or replace macro captured_frames(of_run, of_rank, replays) as table
from captured_rows('unscoped_python_frames', 'left_out_python_frames', of_run, of_rank, replays);

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
