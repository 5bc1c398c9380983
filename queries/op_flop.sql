-- FLOPs and bytes of ops by the shapes of what they take, without counters: which ops compute how fast, and what is not known.
-- A row is one run, rank, device (that of a call's first GPU row, NULL without any), op and shapes; calls that cost other FLOPs,
-- as with another stride, have rows of their own. The formula is the first of queries/op_formulas.csv whose pattern is the op's
-- name. An op inside one that has a formula is part of it, and so is a kernel that it launches (see op_summary). Ops without a
-- formula have a row a name where they launch GPU rows themselves, and what no op launched has one without a name, so that
-- gpu_ns adds up to the durations of all GPU rows. Rates are of busy_ns, in which GPU rows of one call that run at once count
-- once. Softmax, norms, elementwise and other kinds without a peak of FLOPs are bound by memory: `bound` states which peak
-- of_bound_ratio is of, and of_peak_ratio is NULL for them. `least_bytes` reads each tensor once and writes each result once, so that most_flop_per_byte is an upper bound of the
-- intensity. Kernels that a graph replays count at the ops of its capture, where 95 % of their names agree (see graph_replays);
-- their busy_ns is gpu_ns. While a graph is captured, ops launch nothing that runs: `captured_calls` of a row have FLOPs and no
-- gpu_ns. `reason` is why FLOPs are not known: weights or caches are no arguments of an op, as of fused MoE layers and paged
-- attention, or its shapes are not recorded: record_shapes=True of the PyTorch profiler. What was launched before the recording
-- has no op; --linked leaves it out. With --scope-by execution calls count whose GPU rows run in the scope, whenever called.
-- /// query
-- title = "FLOPs by shapes"
-- needs = ["ops"]
-- subject = "roofline"
-- show = ["run", "rank", "op", "shapes", "calls", "gpu_ns", "of_bound_ratio", "bound", "flop", "achieved_gflop_per_s", "reason"]
-- chart = { kind = "bars", x = "op", y = ["flop"], by = "run" }
-- hints = [
--     { when = "not exists (from ops where input_shapes is not null and matches(run, $run) and matches(rank, $rank))", text = "no FLOPs are known: shapes are not recorded; record them with record_shapes=True of the PyTorch profiler" },
--     { when = "exists (from ops where contains(name, 'convolution') and input_shapes is not null and not contains(coalesce(args, ''), '\"Concrete Inputs\"') and matches(run, $run) and matches(rank, $rank))", text = "strides of convolutions are not recorded: FLOPs of those without a backward op of their sizes are not known; a newer torch records strides with the shapes" },
-- ]
-- [params]
-- common = ["run", "rank"]
-- op_kind = { type = "text", example = "gemm", about = "only ops of this kind: gemm, convolution, attention, norm, softmax, elementwise, reduction, embedding, copy, generated" }
-- ceilings = "common"
-- ceilings_run = "common"
-- [columns]
-- common = ["run", "rank", "device"]
-- op = "Op name; NULL for GPU rows that no op launched."
-- shapes = "Sizes of what it takes, as recorded; NULL where the op has no formula."
-- types = "Types of what it takes, as recorded; NULL where the op has no formula."
-- kind = "Kind of the formula; NULL without one."
-- formula = "Which formula of op_formulas; NULL without one."
-- calls = "Calls that lie in no other op with a formula; of ops without one, those that launch GPU rows themselves."
-- op_ns = "Their durations on the CPU, added up."
-- gpu_ns = "Durations of the GPU rows launched inside them, added up."
-- busy_ns = "Time in which at least one of a call's GPU rows ran, added up over the calls."
-- gpu_rows = "GPU rows launched inside them: kernels, copies, memsets and whole graphs."
-- flop = "FLOPs of all calls; a multiply-add is two. NULL without a formula, and where shapes are not recorded."
-- least_bytes = "Bytes of all calls: each tensor that is read, and each result, once."
-- achieved_gflop_per_s = "flop / busy_ns."
-- least_gb_per_s = "least_bytes / busy_ns."
-- most_flop_per_byte = "flop / least_bytes."
-- precision = "The precision whose peak is taken: that of the first argument, of products on tensor cores; NULL for other kinds than gemm, convolution and attention."
-- peak_gflop_per_s = "What the device could reach in that precision; fp32 that is computed as tf32 exceeds it."
-- of_peak_ratio = "achieved_gflop_per_s / peak_gflop_per_s."
-- peak_source = "specification or measured."
-- of_gpu_activity_ratio = "gpu_ns / gpu_activity_ns."
-- gpu_activity_ns = "Durations of all GPU rows of the rank, added up."
-- covered_ns = "gpu_ns of the rank's rows with flop, added up."
-- covered_ratio = "covered_ns / gpu_activity_ns."
-- replayed_calls = "calls where graphs replay them, else 0: op and shapes are those of the capture, and calls those in it times the replays."
-- captured_calls = "calls while a graph was captured: these only record what replays run."
-- reason = "Why flop is NULL."
-- formula_note = "What the formula counts: of attention the whole matrix of scores, also with a causal mask."
-- memory_peak_gb_per_s = "Bandwidth of the device's memory, from the same source as the peak."
-- bound = "compute or memory: at which peak flop or least_bytes would take longer. NULL without the peaks, and of ops whose GPU time is mostly copies between host and device or two devices."
-- of_bound_ratio = "bound_ns / busy_ns."
-- bound_ns = "What flop or least_bytes of all calls take at that peak, rounded; longer than busy_ns where data comes from a cache."
-- ///
with replayed as materialized (
    from known_replays($run, $rank, null)
),
executions as not materialized (
    select run, source, rank, pid, tid, name, start_ns, end_ns, external_id, input_shapes, input_types, args
    from scope_ops($run, $rank)
),
activity as materialized (
    from filtered_activity($run, $rank)
),
api as not materialized (
    from filtered_calls($run, $rank)
),
summed as materialized (
    from all_op_costs('executions', 'activity', 'api', 'replayed')
    where gpu_rows > 0 or not exists (from around_ops)  -- else of calls whose GPU rows ran in the scope
),
unlaunched as (  -- what no op launched, because no launch of it was recorded at all
    select a.run, a.rank, a.device, sum(a.gpu_ns) as gpu_ns
    from activity as a
    anti join api as c
        on a.run = c.run and a.source = c.source and a.pid is not distinct from c.pid and a.correlation = c.correlation
    where not exists (
        from executions as e
        where a.run = e.run and a.source = e.source and a.pid is not distinct from e.pid and a.external_id = e.external_id
    )
    group by a.run, a.rank, a.device
),
totals as (
    select
        run, rank,
        sum(gpu_ns) as gpu_activity_ns,
        sum(gpu_ns) filter (flop is not null) as covered_ns
    from summed
    group by run, rank
),
captures as materialized (
    from graph_captures($run)
),
captured as materialized (
    select o.run, o.rank, o.name as op, o.input_shapes as shapes, o.input_types as types, count(*) as calls
    from executions as o
    join captures as c
        on o.run = c.run and o.source = c.source and o.pid is not distinct from c.pid and o.tid is not distinct from c.tid
        and o.start_ns >= c.start_ns and o.start_ns < c.end_ns
    group by all
),
cards as materialized (from card_facts('summed', null)),
peaked as (
    select
        t.*,
        case when coalesce($ceilings, 'specification') = 'specification' then p.per_s end as specified,
        case when coalesce($ceilings, 'measured') = 'measured' then m.per_s end as measured,
        coalesce(specified, measured) as peak,
        case when specified is not null then 'specification' when measured is not null then 'measured' end as peak_source,
        coalesce(
            case when coalesce($ceilings, 'specification') = 'specification' then pm.per_s end,
            case when coalesce($ceilings, 'measured') = 'measured' then mm.per_s end
        ) as memory_peak,
        t.flop / peak as least_compute_ns,
        t.least_bytes / memory_peak as least_memory_ns,
        case
            when t.is_bus_copy then null
            when t.precision is null or least_memory_ns > least_compute_ns then 'memory'
            when least_memory_ns <= least_compute_ns then 'compute'
        end as nearer_bound
    from summed as t
    left join specified_ceilings('cards') as p
        on t.run = p.run and t.rank = p.rank and t.device is not distinct from p.device and t.precision = p.ceiling
    left join specified_ceilings('cards') as pm
        on t.run = pm.run and t.rank = pm.rank and t.device is not distinct from pm.device and pm.ceiling = 'dram'
    left join measured_ceilings('cards', $ceilings_run) as m
        on t.run = m.run and t.rank = m.rank and t.device is not distinct from m.device and t.precision = m.ceiling
    left join measured_ceilings('cards', $ceilings_run) as mm
        on t.run = mm.run and t.rank = mm.rank and t.device is not distinct from mm.device and mm.ceiling = 'dram'
)
select
    p.run, p.rank, p.device, p.op, p.shapes, p.types, p.kind, p.formula,
    as_bigint(p.calls) as calls,
    as_bigint(p.op_ns) as op_ns,
    as_bigint(coalesce(p.gpu_ns, 0)) as gpu_ns,
    as_bigint(coalesce(p.busy_ns, 0)) as busy_ns,
    as_bigint(coalesce(p.gpu_rows, 0)) as gpu_rows,
    as_bigint(p.flop * p.calls) as flop,
    as_bigint(p.least_bytes * p.calls) as least_bytes,
    p.flop * p.calls / nullif(p.busy_ns, 0) as achieved_gflop_per_s,
    p.least_bytes * p.calls / nullif(p.busy_ns, 0) as least_gb_per_s,
    p.flop / nullif(p.least_bytes, 0) as most_flop_per_byte,
    p.precision,
    p.peak as peak_gflop_per_s,
    p.flop * p.calls / nullif(p.busy_ns, 0) / p.peak as of_peak_ratio,
    p.peak_source,
    p.gpu_ns / nullif(t.gpu_activity_ns, 0) as of_gpu_activity_ratio,
    as_bigint(coalesce(t.gpu_activity_ns, 0)) as gpu_activity_ns,
    as_bigint(coalesce(t.covered_ns, 0)) as covered_ns,
    coalesce(t.covered_ns, 0) / nullif(t.gpu_activity_ns, 0) as covered_ratio,
    as_bigint(case when p.is_replayed then p.calls else 0 end) as replayed_calls,
    as_bigint(case when p.is_replayed or p.gpu_rows > 0 then 0 else least(coalesce(q.calls, 0), p.calls) end) as captured_calls,
    case
        when p.flop is not null then null
        when p.op is null and u.gpu_ns > 0
            then format('no recorded op launched it; of {:,} ns no launch was recorded, as of what was launched before the recording', as_bigint(u.gpu_ns))
        when p.op is null then 'no recorded op launched it'
        when p.formula is null then reason_without_formula(p.op)
        when not f.counts_flop then 'its formula counts bytes alone'
        when p.shapes is null then 'its shapes are not recorded'
        else 'its recorded arguments lack what the formula needs'
    end as reason,
    case
        when p.is_bus_copy then concat_ws('; ', f.note, 'most of its GPU time are copies to or from the device, which the bus bounds and not the memory')
        else f.note
    end as formula_note,
    p.memory_peak as memory_peak_gb_per_s,
    case when p.least_memory_ns is not null then p.nearer_bound end as bound,
    case bound when 'compute' then p.least_compute_ns when 'memory' then p.least_memory_ns end * p.calls / nullif(p.busy_ns, 0)
        as of_bound_ratio,
    as_bigint(round(case bound when 'compute' then p.least_compute_ns when 'memory' then p.least_memory_ns end * p.calls)) as bound_ns
from peaked as p
left join captured as q
    on p.run = q.run and p.rank = q.rank and p.op = q.op and p.shapes is not distinct from q.shapes
    and p.types is not distinct from q.types
join totals as t on p.run = t.run and p.rank = t.rank
left join op_formulas as f on p.formula = f.formula
left join unlaunched as u on p.op is null and p.run = u.run and p.rank = u.rank and p.device is not distinct from u.device
where matches(p.kind, $op_kind)
order by p.run, p.rank, coalesce(p.gpu_ns, 0) desc, p.flop * p.calls desc nulls last, p.op, p.device, p.shapes, p.types, p.flop, p.least_bytes, p.is_replayed
