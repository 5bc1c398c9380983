-- How much memory each run of a sweep took on each device: what a table of ops adds up, beside the true peaks.
-- A row is one run, rank and device; the row without a device is the host, and a run that recorded no memory is one row
-- with its status. `allocated_bytes` and `reserved_bytes` are the framework's own peaks, in the steps it wrote down and in
-- the trace; of a host PyTorch counts only what was allocated since its profiler began, so that weights and the optimizer's
-- state are not in it (`counted_from`), and `rss_bytes` is the measure of the process. `used_bytes` is what NVML or
-- nvidia-smi saw on the card: the CUDA context, NCCL's buffers, reserved memory and other people's processes are in it. A
-- card that the run used is a row where only the sampler saw it, too. `op_sum_bytes` is what key_averages() prints as an
-- op's memory: allocations less releases inside it, added up over its calls; the largest of all ops is no peak of anything,
-- and it falls with the number of calls. `imbalance_factor` compares a device with the mean of the others: DataParallel
-- gathers outputs and sums gradients on the first one.
-- /// query
-- title = "Memory of a sweep"
-- needs = ["memory_peaks", "memory_events", "host_samples"]
-- show = ["run", "batch_size", "layout", "rank", "status", "allocated_bytes", "used_bytes", "of_total_ratio"]
-- chart = { kind = "curves", x = "batch_size", y = ["allocated_bytes", "used_bytes", "op_sum_bytes"], by = "layout", panel = ["model", "variant"] }
-- [params]
-- common = ["run", "rank", "device"]
-- sweep = { example = "generated-scaling" }
-- model = "common"
-- [columns]
-- common = ["run", "sweep", "model", "batch_size", "layout", "variant", "repeat", "status", "rank", "device"]
-- allocated_bytes = "Peak allocated by the framework, as far as `counted_from` goes."
-- reserved_bytes = "Peak reserved by the framework."
-- used_bytes = "The most in use on the card, by everyone; of the host by everyone there."
-- total_bytes = "Memory that the card, or the host, has."
-- of_total_ratio = "used_bytes / total_bytes."
-- rss_bytes = "The most resident memory of the process, on the host."
-- op_sum_bytes = "The largest of the ops' sums over calls of allocations less releases."
-- op_sum_op = "That op."
-- allocation_sum_bytes = "Bytes of all allocations in the recording, added up."
-- others_mean_bytes = "Mean of allocated_bytes of the run's other devices."
-- imbalance_factor = "allocated_bytes / others_mean_bytes."
-- counted_from = "What allocated_bytes counts. totals: all; start: on a host, what was allocated since the profiler began; sizes: since the first event, added up."
-- [report]
-- section = "sweeps"
-- order = 8
-- needs = ["steps"]
-- show_if = "common"
-- ok_text = "No run takes more than 90 % of a card's memory."
-- unknown = "How full the cards are is not known: no run sampled what is in use on a card. Record with `tracelab collect`, which queries NVML."
-- [[report.findings]]
-- when = "case when device is not null then of_total_ratio > 0.9 end"
-- by = "of_total_ratio"
-- text = "{run} takes {used_bytes of total_bytes} of the memory of GPU {device}, together with other processes there."
-- advice = "The next larger batch will not fit: checkpoint activations, use half precision, or shard the optimizer's state."
-- [[report.findings]]
-- when = "imbalance_factor > 1.2"
-- by = "imbalance_factor"
-- text = "{run} allocates {allocated_bytes} on GPU {device}, {imbalance_factor} times the mean of its other devices."
-- advice = "DataParallel gathers outputs and gradients on the first device: DistributedDataParallel loads all alike."
-- ///
with selected as materialized (
    select * from cells where matches(run, $run) and matches(sweep, $sweep) and matches(model, $model)
),
events as materialized (
    select
        row_number() over () as id,
        run, source, rank, pid, tid, device, time_ns, address, size_bytes, allocated_bytes, reserved_bytes
    from memory_events
    semi join selected using (run)
),
recorded_peaks as (
    select run, rank, device, peak_bytes as allocated_bytes, peak_reserved_bytes as reserved_bytes, counted_from
    from memory_peaks_of('events')
),
written_peaks as (
    select
        run, rank, device,
        max(allocated_bytes) as allocated_bytes, max(reserved_bytes) as reserved_bytes, max(used_bytes) as used_bytes
    from memory_peaks
    semi join selected using (run)
    group by run, rank, device
),
cards as (  -- the sampler's ordinals are those of its host: they are the ranks' own where there is one host
    select run, device, max(used_bytes) as used_bytes, max(total_bytes) as total_bytes, max(rss_bytes) as rss_bytes
    from host_samples
    semi join selected using (run)
    group by run, device
    having count(distinct host) <= 1
),
calls as materialized (
    select row_number() over () as id, run, source, rank, pid, tid, name, start_ns, end_ns
    from ops
    semi join (select distinct run from events) using (run)
),
sizes as (
    select run, source, pid, tid, time_ns as at_ns, device, size_bytes as gpu_ns, 1 as gpu_rows
    from events
    where time_ns is not null
),
op_sums as (
    select c.run, c.rank, w.device, c.name, sum(w.gpu_ns) as op_sum_bytes
    from summed_within('calls', 'sizes') as w
    join calls as c using (id)
    group by c.run, c.rank, w.device, c.name
),
largest_ops as (
    select run, rank, device, max(op_sum_bytes) as op_sum_bytes, arg_max(name, (op_sum_bytes, name)) as op_sum_op
    from op_sums
    group by run, rank, device
),
allocations as (
    select run, rank, device, sum(size_bytes) filter (size_bytes > 0) as allocation_sum_bytes
    from events
    group by run, rank, device
),
of_framework as (
    select run, rank, device from recorded_peaks
    union
    select run, rank, device from written_peaks
),
only_sampled as (  -- cards of the run without figures from the framework: of several processes each has its own
    select s.run, case when c.world_size > 1 then s.device else 0 end as rank, s.device
    from cards as s
    join selected as c on s.run = c.run
    where s.device < coalesce(c.gpus, s.device + 1)
        and (s.run, s.device) not in (select (run, device) from of_framework where device is not null)
),
places as (
    from of_framework
    union
    from only_sampled
    union
    select run, 0 as rank, device from cards where device is null
),
known as (
    select
        p.run, p.rank, p.device,
        greatest(r.allocated_bytes, w.allocated_bytes) as allocated_bytes,
        case when w.allocated_bytes >= coalesce(r.allocated_bytes, 0) then 'totals' else r.counted_from end as counted_from,
        greatest(r.reserved_bytes, w.reserved_bytes) as reserved_bytes,
        greatest(w.used_bytes, c.used_bytes) as used_bytes,
        c.total_bytes, c.rss_bytes, o.op_sum_bytes, o.op_sum_op, a.allocation_sum_bytes
    from places as p
    left join recorded_peaks as r on p.run = r.run and p.rank = r.rank and p.device is not distinct from r.device
    left join written_peaks as w on p.run = w.run and p.rank = w.rank and p.device is not distinct from w.device
    left join cards as c on p.run = c.run and p.device is not distinct from c.device
    left join largest_ops as o on p.run = o.run and p.rank = o.rank and p.device is not distinct from o.device
    left join allocations as a on p.run = a.run and p.rank = a.rank and p.device is not distinct from a.device
),
balanced as (
    select
        *,
        (sum(allocated_bytes) over gpus - allocated_bytes) / nullif(count(allocated_bytes) over gpus - 1, 0) as others_mean
    from known
    window gpus as (partition by run, device is null)
)
select
    c.run, c.sweep, c.model,
    c.batch_size::bigint as batch_size,
    c.layout, c.variant,
    c.repeat::bigint as repeat,
    c.status,
    b.rank, b.device, b.allocated_bytes, b.reserved_bytes, b.used_bytes, b.total_bytes,
    b.used_bytes / nullif(b.total_bytes, 0) as of_total_ratio,
    b.rss_bytes,
    as_bigint(b.op_sum_bytes) as op_sum_bytes,
    b.op_sum_op,
    as_bigint(b.allocation_sum_bytes) as allocation_sum_bytes,
    case when b.device is not null then as_bigint(round(b.others_mean)) end as others_mean_bytes,
    case when b.device is not null then b.allocated_bytes / nullif(b.others_mean, 0) end as imbalance_factor,
    b.counted_from
from selected as c
left join balanced as b on c.run = b.run
where matches(b.rank, $rank) and matches(b.device, $device)
order by c.sweep, c.model, c.variant, c.batch_size, c.kind, c.processors, c.parallelism, c.repeat, c.run, b.rank, b.device
