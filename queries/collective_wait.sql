-- How long each rank waits in each collective for the last one, and how long the transfer takes.
-- A row is one run, collective and rank, from the first start to the last end of its kernels. A collective is found on the
-- other ranks by its id, else by its group and sequence number; without either by its order within the group, where one shift
-- makes kinds and sizes agree for 95 % of them and the ends agree within 1 ms around their median: else all of the group are
-- refused. The n-th send from one rank to another belongs to the n-th receive, with such a shift.
-- A wait lasts from the rank's start to the start on the last rank, the transfer from there to the rank's end: only for
-- kinds that no rank can leave before all have entered, and for a send and its receive until the rank's own end. Clocks are
-- aligned by clock_offsets. duration_wait_ns needs no clocks.
-- /// query
-- title = "Waiting in each collective"
-- needs = ["kernels"]
-- chart = { kind = "grid", x = "number", y = ["wait_ns"], by = "rank", panel = ["run"] }
-- [params]
-- common = ["run"]
-- rank = { type = "integer", about = "only this rank" }
-- [columns]
-- run = "common"
-- number = "The collective's place in the run, by its first start."
-- rank = "common"
-- device = "common"
-- collective = "broadcast, all_reduce, all_gather, reduce_scatter, reduce, all_to_all, send_recv, other or unknown."
-- state = "matched; partial: not on all ranks of its group; mismatched: another kind, type or size on some rank; cut: a recording begins or ends in it; refused."
-- matched_by = "comms_id, seq or order."
-- ranks = "Ranks that it was found on."
-- group_size = "Ranks of its group; NULL where they are not known."
-- start_ns = "Start on this rank, by its own clock."
-- dur_ns = "Its duration on this rank."
-- wait_ns = "From the start on this rank to the start on the last one."
-- transfer_ns = "From the start on the last rank to the end on this one; below 0 where clocks do not agree."
-- duration_wait_ns = "dur_ns less the shortest dur_ns of any rank: waiting by durations alone."
-- last_rank = "The rank that starts last; of several the lowest."
-- reason = "Why it is not matched."
-- src_rank = "Rank that sends, of a send and its receive."
-- dst_rank = "Rank that receives."
-- ///
with executions as not materialized (
    select run, source, rank, pid, device, stream, name, start_ns, end_ns, dur_ns, correlation
    from kernels
    where matches(run, $run)
),
communication as materialized (
    from collective_kernels('executions')
),
matched as materialized (
    from match_ranks('communication')
),
offsets as materialized (
    from rank_offsets('matched')
)
select
    run, number, rank, device, collective, state, matched_by, ranks,
    members::bigint as group_size,
    start_ns,
    as_bigint(end_ns - start_ns) as dur_ns,
    as_bigint(wait_ns) as wait_ns,
    as_bigint(transfer_ns) as transfer_ns,
    as_bigint(duration_wait_ns) as duration_wait_ns,
    last_rank::bigint as last_rank,
    reason,
    src_rank::bigint as src_rank,
    dst_rank::bigint as dst_rank
from wait_times('matched', 'offsets')
where matches(rank, $rank)
order by run, number, rank
