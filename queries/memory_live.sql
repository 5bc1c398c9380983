-- Purpose of the memory that is allocated at the peak.
-- A row is one run, rank, device and pair of op and annotation, the innermost ones on the allocating thread, and the blocks
-- that they allocated during the recording and that were live at the peak (`memory_peak` has the time). What was live
-- before the recording began, as weights mostly are, is in no row: `peak_bytes` less `recorded_bytes`; of a host's memory it
-- is not in `peak_bytes` either (`counted_from` of `memory_peak`). Needs addresses.
-- Where the source wrote no totals down, releases of what was there before lower the peak, which may then be less.
-- /// query
-- title = "Live memory at the peak"
-- needs = ["memory_events"]
-- show = ["run", "rank", "device", "op", "annotation", "blocks", "live_bytes", "of_peak_ratio"]
-- chart = { kind = "bars", x = "op", y = ["live_bytes"], by = "run", host = true }
-- [params]
-- common = ["run", "rank", "device"]
-- [columns]
-- common = ["run", "rank", "device"]
-- op = "Innermost op that ran when the blocks were allocated; NULL where none did."
-- annotation = "Innermost annotation open then."
-- blocks = "Blocks live at the peak."
-- live_bytes = "common"
-- largest_bytes = "The largest of them."
-- recorded_bytes = "Bytes of all blocks of the device that were allocated in the recording and live at the peak."
-- peak_bytes = "The most that was allocated."
-- of_peak_ratio = "common"
-- [report]
-- section = "memory"
-- order = 3
-- ok_text = "No op allocated more than 10 % of the memory at the peak within one range: most of it was there before the recording began, or many ops share it."
-- unknown = "What the memory at the peak was allocated for is not known: nothing was allocated."
-- [[report.findings]]
-- when = "op is not null and live_bytes > 0.1 * nullif(peak_bytes, 0)"
-- by = "live_bytes"
-- text = "[{where}: ]at the peak {op} holds {live_bytes of peak_bytes}, in {blocks} blocks[, allocated in the range {annotation}]."
-- advice = "Activations can be recomputed (checkpointing) or kept in half precision; gradients and optimizer states can be sharded."
-- [[report.findings]]
-- when = "op is null and live_bytes > 0.1 * nullif(peak_bytes, 0)"
-- by = "live_bytes"
-- text = "[{where}: ]at the peak {live_bytes of peak_bytes} are in {blocks} blocks that no recorded op allocated[; the range was {annotation}]."
-- advice = "Record ops beside memory to see what allocates them; fewer and larger blocks, or buffers that are used again, lower the peak."
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
moments as (
    select a.id, a.run, a.source, a.pid, a.tid, a.time_ns as at_ns from selected as a semi join live using (id)
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
    select i.id, o.name as op from innermost_of_many('host_ops', 'moments') as i join host_ops as o on i.parent = o.id
),
moment_marks as (
    select i.id, m.name as annotation from innermost_of_many('marked', 'moments') as i join marked as m on i.parent = m.id
),
owners as (
    select
        run, rank, device, op, annotation,
        count(*) as blocks,
        sum(size_bytes) as live_bytes,
        max(size_bytes) as largest_bytes
    from live
    left join moment_ops using (id)
    left join moment_marks using (id)
    group by run, rank, device, op, annotation
)
select
    o.run, o.rank, o.device, o.op, o.annotation, o.blocks,
    as_bigint(o.live_bytes) as live_bytes,
    o.largest_bytes,
    as_bigint(sum(o.live_bytes) over (partition by o.run, o.rank, o.device)) as recorded_bytes,
    p.peak_bytes,
    o.live_bytes / nullif(p.peak_bytes, 0) as of_peak_ratio
from owners as o
join peaks as p on o.run = p.run and o.rank = p.rank and o.device is not distinct from p.device
order by o.run, o.rank, o.device, o.live_bytes desc, o.op, o.annotation
