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

-- is_capture(run, source, replays): whether replays of known_replays() were captured in this source.
create or replace macro is_capture(run, source, replays) as
    (run, source) in (select (capture_run, capture_source) from query_table(replays));

-- surrounding_ops(of_run, of_rank, replays): filtered_ops(), and those where known_replays() were captured. Without a scope: what is
-- around the rows of one may lie outside of it.
create or replace macro surrounding_ops(of_run, of_rank, replays) as table
select
    row_number() over () as id, run, source, rank, pid, tid, name, start_ns, end_ns, external_id, sequence_number,
    coalesce(forward_tid, 0) > 0 as is_backward
from unscoped_ops
where (matches(run, of_run) and matches(rank, of_rank)) or is_capture(run, source, replays);
