-- When the most memory was allocated, what ran then, and what was live.
-- A row is one run, rank and device; without a device it is host memory. The peak is the first event of the recording after
-- which the most was allocated; the op and the annotation are the innermost that ran on its thread. Blocks allocated during
-- the recording and not yet released are known one by one (`live_blocks`); the rest of the peak was allocated before. Of
-- host memory PyTorch counts only what was allocated since its profiler first recorded memory (`counted_from` is `start`):
-- what was there before, as weights and the optimizer's state mostly are, is missing from the peak. Where the source wrote
-- no totals down, the sizes are added up since the first event (`sizes`), and the peak is that of the recording alone, less
-- what was there before and released in it: the live blocks may then be more than the peak. What other libraries allocate
-- (NCCL, cuDNN, the CUDA context) is in none of it.
-- /// query
-- title = "Memory peak"
-- needs = ["memory_events"]
-- show = ["run", "rank", "device", "peak_bytes", "at_ns", "op", "peak_reserved_bytes", "of_peak_ratio"]
-- chart = { kind = "bars", x = "rank", y = ["peak_bytes", "live_bytes", "peak_reserved_bytes"], by = "run", host = true }
-- [params]
-- common = ["run", "rank", "device"]
-- [columns]
-- common = ["run", "rank", "device"]
-- peak_bytes = "The most that was allocated, as far as `counted_from` goes."
-- at_ns = "common"
-- time_ns = "common"
-- op = "Innermost op that ran on the event's thread."
-- annotation = "Innermost annotation open on the event's thread."
-- reserved_bytes = "Reserved by the allocator then; NULL where the source does not record it."
-- peak_reserved_bytes = "The most that was reserved."
-- live_blocks = "Blocks allocated in the recording and live at the peak; NULL where the source has no addresses."
-- live_bytes = "common"
-- of_peak_ratio = "common"
-- largest_block_bytes = "The largest of them."
-- largest_block_op = "Innermost op that ran when it was allocated, on that thread."
-- events = "Allocations and releases."
-- pid = "The process; of several that of the highest peak."
-- counted_from = "common"
-- [report]
-- section = "memory"
-- order = 1
-- [[report.findings]]
-- when = "counted_from = 'totals' and device is not null and peak_bytes is not null"
-- by = "peak_bytes"
-- text = "[{where}: ]at most {peak_bytes} are allocated[, and at most {peak_reserved_bytes} reserved][; at that moment {op} runs]."
-- advice = "See below for what it was allocated for."
-- [[report.findings]]
-- when = "counted_from <> 'totals' and device is not null and peak_bytes is not null"
-- by = "peak_bytes"
-- text = "[{where}: ]of what was allocated since the recording began at most {peak_bytes} are held[; at that moment {op} runs]."
-- advice = "See below for what it was allocated for. Weights that were there before are not in it."
-- [[report.findings]]
-- when = "device is null and peak_bytes is not null"
-- by = "peak_bytes"
-- text = "[{where}: ]of the host's memory that was allocated since the recording began at most {peak_bytes} are held[; at that moment {op} runs]."
-- advice = "See below for what it was allocated for. Weights that were there before are not in it."
-- ///
with selected as materialized (
    select
        row_number() over () as id,
        run, source, rank, pid, tid, device, time_ns, address, size_bytes, allocated_bytes, reserved_bytes
    from memory_events
    where matches(run, $run) and matches(rank, $rank) and matches(device, $device)
),
peaks as materialized (
    from memory_peaks_of('selected')
),
live as materialized (
    from live_at_peaks('selected', 'peaks')
),
largest as (
    select
        run, rank, device,
        count(*) as live_blocks,
        sum(size_bytes) as live_bytes,
        max(size_bytes) as largest_block_bytes,
        max_by(id, (size_bytes, -id)) as largest_id
    from live
    group by run, rank, device
),
moments as (
    select a.id, a.run, a.source, a.pid, a.tid, a.time_ns as at_ns
    from selected as a
    semi join (select id from peaks union all select largest_id from largest) as w on a.id = w.id
),
host_ops as materialized (
    select row_number() over () as id, run, source, pid, tid, name, start_ns, end_ns
    from ops
    where matches(run, $run) and matches(rank, $rank)
),
marked as materialized (
    select row_number() over () as id, run, source, pid, tid, name, start_ns, end_ns
    from annotations
    where scope = 'cpu' and matches(run, $run) and matches(rank, $rank)
),
moment_ops as (
    select i.id, o.name from innermost_of_many('host_ops', 'moments') as i join host_ops as o on i.parent = o.id
),
moment_marks as (
    select i.id, m.name from innermost_of_many('marked', 'moments') as i join marked as m on i.parent = m.id
)
select
    p.run, p.rank, p.device, p.peak_bytes, p.at_ns, p.time_ns,
    o.name as op,
    m.name as annotation,
    p.reserved_bytes, p.peak_reserved_bytes,
    case when p.has_addresses then zero_if_missing(l.run, l.live_blocks) end as live_blocks,
    case when p.has_addresses then as_bigint(zero_if_missing(l.run, l.live_bytes)) end as live_bytes,
    case when p.has_addresses then zero_if_missing(l.run, l.live_bytes) / nullif(p.peak_bytes, 0) end as of_peak_ratio,
    l.largest_block_bytes,
    lo.name as largest_block_op,
    p.events, p.pid, p.counted_from
from peaks as p
left join largest as l on p.run = l.run and p.rank = l.rank and p.device is not distinct from l.device
left join moment_ops as o on p.id = o.id
left join moment_marks as m on p.id = m.id
left join moment_ops as lo on l.largest_id = lo.id
order by p.run, p.rank, p.device
