-- How much collectives move, how fast, and how much of their time is waiting for other ranks.
-- A row is one run, rank, device, kind of collective and process group. A collective is a communication kernel; its size S
-- and group come from what the profiler noted about it, or about the op that launched only it. algbw is S over
-- time, busbw S times a factor of the kind and the group's size n over time, as nccl-tests define them: all_reduce
-- 2(n-1)/n; all_gather, reduce_scatter, all_to_all, and of `other` gather and scatter (n-1)/n; broadcast, reduce and
-- send_recv 1. A kernel's time holds its waiting for the other ranks. Where its collective is known on every rank of the group
-- (see collective_wait), the shortest of its kernels, in the scope or not, is the transfer and the rest is waiting. What is not known is NULL.
-- 1 GB is 1e9 bytes.
-- /// query
-- title = "Collective bandwidth"
-- needs = ["kernels", "annotations"]
-- show = ["run", "rank", "collective", "group_name", "message_bytes", "kernels", "dur_ns", "busbw_gb_per_s", "wait_ratio"]
-- chart = { kind = "bars", x = "collective", y = ["busbw_gb_per_s", "transfer_busbw_gb_per_s"], by = "run" }
-- [params]
-- common = ["run", "rank", "device"]
-- by_size = { default = false, about = "a row for each message size" }
-- [columns]
-- common = ["run", "rank", "device"]
-- collective = "broadcast, all_reduce, all_gather, reduce_scatter, reduce, all_to_all, send_recv, other or unknown."
-- group_name = "Process group."
-- group_size = "Ranks in the group, n."
-- message_bytes = "Size S of one collective, in rows by size."
-- kernels = "Communication kernels."
-- dur_ns = "common"
-- sized_kernels = "Kernels of known size and time."
-- size_bytes = "Their sizes S, added up."
-- sized_dur_ns = "Their durations, added up."
-- algbw_gb_per_s = "size_bytes / sized_dur_ns, in 1e9 bytes a second."
-- bus_bytes = "S times the factor, added up over the sized kernels whose factor is known."
-- bus_dur_ns = "Durations of those kernels, added up."
-- busbw_gb_per_s = "bus_bytes / bus_dur_ns, in 1e9 bytes a second."
-- matched_kernels = "Kernels of known time that were found on every rank of the group, whether their size is known or not."
-- matched_bytes = "Sizes S of those whose size is known, added up."
-- matched_bus_bytes = "S times the factor, added up over those whose factor is known, too."
-- matched_dur_ns = "Durations of the matched kernels, added up."
-- transfer_ns = "Of each the shortest duration over the ranks, added up."
-- wait_ns = "matched_dur_ns less transfer_ns."
-- wait_ratio = "wait_ns / matched_dur_ns."
-- transfer_algbw_gb_per_s = "matched_bytes / transfer_ns, in 1e9 bytes a second, where the sizes of all matched kernels are known."
-- transfer_busbw_gb_per_s = "matched_bus_bytes / transfer_ns, in 1e9 bytes a second, where the sizes and factors of all are known."
-- bytes_source = "Where the sizes come from: trace, nvtx, collector …"
-- [report]
-- section = "communication"
-- order = 2
-- show_if = "busbw_gb_per_s is not null"
-- without = "no collective has a known size: profile a distributed job with PyTorch 2.1 or newer, or annotate with NCCL in nsys"
-- ok_text = "No collective's kernels wait for the last rank for more than 30 % of their time."
-- unknown = "How long the collectives wait for the last rank is not known: no kernel was matched over all ranks of its group. Ingest the traces of all ranks as one run."
-- [[report.findings]]
-- when = "wait_ns > 0.3 * nullif(matched_dur_ns, 0)"
-- by = "wait_ns"
-- cost = { ns = "wait_ns", adds = ["collective"], topics = ["waiting"], leads = false }
-- next = "stragglers"
-- text = "[{where}: ]of the {collective} kernels that were matched over ranks, {wait_ns of matched_dur_ns} of the time is waiting for the last rank."
-- advice = "That is no matter of bandwidth: find the straggler, and what it does meanwhile."
-- ///
with sized as not materialized (
    from communication_kernels where in_scope and matches(run, $run)
),
factored as materialized (
    select
        *,
        case
            when collective = 'all_reduce' then 2 * (group_size - 1) / nullif(group_size, 0)
            when collective in ('all_gather', 'reduce_scatter', 'all_to_all') then (group_size - 1) / nullif(group_size, 0)
            when collective = 'other' and regexp_matches(raw_name, '(?i)gather|scatter')  -- all_gather is no other
                then (group_size - 1) / nullif(group_size, 0)
            when collective in ('broadcast', 'reduce', 'send_recv') then 1
        end as factor
    from sized
),
ranks as materialized (
    select m.run, m.number, m.id, c.measured_ns
    from matched_collectives as m
    join communication_kernels as c on m.id = c.id
    where m.state = 'matched' and m.kernels = 1
),
transfers as (
    select r.id, t.transfer_ns
    from ranks as r
    join (
        select run, number, min(measured_ns) as transfer_ns
        from ranks
        group by run, number
        having count(*) = count(measured_ns)
    ) as t on r.run = t.run and r.number = t.number
),
matched as (
    select
        f.run, f.rank, f.device, f.collective, f.group_name, f.group_size,
        case when $by_size then f.size_bytes end as message_bytes,
        f.measured_ns, f.bytes_source,
        case when f.measured_ns is not null then f.size_bytes end as size_bytes,
        case when f.measured_ns is not null then f.size_bytes * f.factor end as bus_bytes,
        t.transfer_ns
    from factored as f
    left join transfers as t on f.id = t.id
    where matches(f.rank, $rank) and matches(f.device, $device)
),
sums as (
    select
        run, rank, device, collective, group_name, group_size, message_bytes,
        count(*) as kernels,
        coalesce(sum(measured_ns), 0) as dur_ns,
        count(size_bytes) as sized_kernels,
        sum(size_bytes) as size_bytes,
        sum(measured_ns) filter (size_bytes is not null) as sized_dur_ns,
        sum(bus_bytes) as bus_bytes,
        sum(measured_ns) filter (bus_bytes is not null) as bus_dur_ns,
        count(transfer_ns) as matched_kernels,
        sum(size_bytes) filter (transfer_ns is not null) as matched_bytes,
        sum(bus_bytes) filter (transfer_ns is not null) as matched_bus_bytes,
        sum(measured_ns) filter (transfer_ns is not null) as matched_dur_ns,
        sum(transfer_ns) as transfer_ns,
        count(transfer_ns) filter (size_bytes is null) as matched_unsized,
        count(transfer_ns) filter (bus_bytes is null) as matched_without_factor,
        string_agg(distinct bytes_source, ', ' order by bytes_source) as bytes_source
    from matched
    group by run, rank, device, collective, group_name, group_size, message_bytes
)
select
    run, rank, device, collective, group_name,
    group_size::bigint as group_size,
    message_bytes, kernels,
    as_bigint(dur_ns) as dur_ns,
    sized_kernels,
    as_bigint(sums.size_bytes) as size_bytes,
    as_bigint(sums.sized_dur_ns) as sized_dur_ns,
    sums.size_bytes / nullif(sums.sized_dur_ns, 0) as algbw_gb_per_s,
    as_bigint(round(sums.bus_bytes)) as bus_bytes,
    as_bigint(sums.bus_dur_ns) as bus_dur_ns,
    sums.bus_bytes / nullif(sums.bus_dur_ns, 0) as busbw_gb_per_s,
    matched_kernels,
    as_bigint(sums.matched_bytes) as matched_bytes,
    as_bigint(round(sums.matched_bus_bytes)) as matched_bus_bytes,
    as_bigint(sums.matched_dur_ns) as matched_dur_ns,
    as_bigint(sums.transfer_ns) as transfer_ns,
    as_bigint(sums.matched_dur_ns - sums.transfer_ns) as wait_ns,
    (sums.matched_dur_ns - sums.transfer_ns) / nullif(sums.matched_dur_ns, 0) as wait_ratio,
    case when matched_unsized = 0 then sums.matched_bytes / nullif(sums.transfer_ns, 0) end as transfer_algbw_gb_per_s,
    case
        when matched_without_factor = 0 then sums.matched_bus_bytes / nullif(sums.transfer_ns, 0)
    end as transfer_busbw_gb_per_s,
    bytes_source
from sums
order by run, rank, device, sums.dur_ns desc, collective, group_name, group_size, message_bytes
