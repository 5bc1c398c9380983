-- How long each rank waits in each collective for the last one, and how long the transfer takes.
-- A row is one run, collective and rank, from the first start to the last end of its kernels. A collective is found on the
-- other ranks by its id, else by its group and sequence number; without either by its order within the group, where one shift
-- makes kinds and sizes agree for 95 % of them and the ends agree within 1 ms around their median: else all of the group are
-- refused. The n-th send from one rank to another belongs to the n-th receive, with such a shift.
-- A wait lasts from the rank's start to the start on the last rank, the transfer from there to the rank's end: only for
-- kinds that no rank can leave before all have entered, for a broadcast or reduction that no rank did leave before, and for a
-- send and its receive until the rank's own end. Clocks are aligned by clock_offsets. duration_wait_ns needs no clocks.
-- A scope chooses the rows: their numbers, matches, clocks and waits are those of the whole recording.
-- /// query
-- title = "Waiting in each collective"
-- needs = ["kernels", "annotations"]
-- subject = "communication"
-- show = ["run", "number", "rank", "collective", "dur_ns", "wait_ns", "root_wait_ns", "last_rank", "transfer_ns", "reason"]
-- chart = { kind = "grid", x = "number", y = ["wait_ns"], labels = { number = "collective, in the order of first starts" }, by = "rank", panel = ["run"] }
-- hints = [
--     { when = "lacks_several_ranks($run) and lacks_cpu_communication($run, null)", text = "no run has several ranks; ingest the traces of all ranks as one run", empty = true },
-- ]
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
-- exposed_wait_ns = "Time of wait_ns in which no kernel of the rank and no whole graph computed."
-- exposed_transfer_ns = "Time of transfer_ns in which none did."
-- lateness_ns = "Its entry less the median entry of the other ranks; below 0 where it is early."
-- root_wait_ns = "Of a broadcast or reduction with a known root: waiting for a late root, or of an early root for the last other rank."
-- ///
with waits as not materialized (
    from clocked_waits where in_scope and matches(run, $run)
)
select
    w.run, w.number, w.rank, w.device, w.collective, w.state, w.matched_by, w.ranks,
    w.members::bigint as group_size,
    w.start_ns,
    as_bigint(w.end_ns - w.start_ns) as dur_ns,
    as_bigint(w.wait_ns) as wait_ns,
    as_bigint(w.transfer_ns) as transfer_ns,
    as_bigint(w.duration_wait_ns) as duration_wait_ns,
    w.last_rank::bigint as last_rank,
    w.reason,
    w.src_rank::bigint as src_rank,
    w.dst_rank::bigint as dst_rank,
    as_bigint(w.wait_ns - (w.wait_end_clock_ns - w.start_clock_ns)) as exposed_wait_ns,
    case
        when w.wait_ns is not null then as_bigint(greatest(0, w.transfer_ns) - greatest(0, w.end_clock_ns - w.wait_end_clock_ns))
    end as exposed_transfer_ns,
    as_bigint(l.lateness_ns) as lateness_ns,
    as_bigint(r.root_wait_ns) as root_wait_ns
from waits as w
left join latenesses('clocked_waits') as l on w.run = l.run and w.number = l.number and w.rank = l.rank
left join root_waits('matched_collectives', 'rank_clocks') as r on w.run = r.run and w.number = r.number and w.rank = r.rank
where matches(w.rank, $rank)
order by w.run, w.number, w.rank
