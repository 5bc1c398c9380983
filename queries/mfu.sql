-- What share of its GPU's peak a program used for arithmetic: model FLOP/s utilization (MFU), or why it is unknown.
-- A row is one run, rank and device with kernels. The time is that of the steps: from the first start to the last end of
-- the processor's ranges that --step-name finds, or to the end of the kernels launched in it, if that is later; without such
-- ranges it is the device's window. Of a scope it is that of the steps that it has whole, those between them left out, or its
-- window where it has none, as of --from and --to within a step; in either case without the time in which only
-- rows outside of it run. With --scope-by execution a kernel counts where it runs, not where it was launched. The FLOPs are those of --flop-per-step; else, with --passes, the model's own
-- (flop_per_sample and batch_size of the run; DataParallel splits a batch over its GPUs); else what ncu counted in a run of
-- the same program (see kernel_flop) for the kernels launched in that time, recomputation and padding included: strictly, the
-- utilization of the hardware. With --from shapes they are those of the ops that began in that time, by their formulas (see
-- op_flop); the FLOPs of a kernel are known where the op that launched it has a formula. Ops that checkpointing recomputes are
-- among them: then this is the utilization of the hardware, too (HFU), and --passes has that of the model.
-- The peak is dense, of one GPU and of the type that did most of it: --peak-gflop-per-s, else the data sheet's, else the
-- sustained measured ceiling, else the report's own.
-- Nothing is guessed: where less than --min-coverage of the kernels' time has counts of the same name, grid, block and,
-- where both record it, shared memory, or the result exceeds the peak, the figures are NULL and `refused` has the reason.
-- Communication kernels need no counts. --run takes a run with kernels, or one that counted those of the same program.
-- /// query
-- title = "Model FLOP/s utilization"
-- needs = ["kernels"]
-- show = ["run", "rank", "device", "step_ns", "achieved_gflop_per_s", "peak_gflop_per_s", "mfu_ratio", "refused"]
-- chart = { kind = "bars", x = "rank", y = ["mfu_ratio"], by = "run" }
-- [params]
-- common = ["run", "rank", "device", "ncu", "step_name"]
-- step_count = { type = "integer", about = "how many steps the time has, where no range marks them" }
-- flop_per_step = { type = "number", example = 3.5e11, about = "FLOPs of a step on one GPU, from elsewhere" }
-- passes = { type = "number", about = "what a step costs in forward passes: 3 in training, 1 in inference" }
-- precision = { type = "text", about = "the precision whose peak is taken: fp32, tensor_bf16 …" }
-- peak_gflop_per_s = { type = "number", example = 156000.0, about = "the peak of one GPU, from elsewhere" }
-- min_coverage = { default = 0.9, about = "least share of the kernels' time whose counts must be known" }
-- from = "common"
-- half = "common"
-- ceilings = "common"
-- ceilings_run = "common"
-- [columns]
-- common = ["run", "rank", "device"]
-- steps = "Steps."
-- step_ns = "window_ns / steps, rounded."
-- flop_per_step = "FLOPs of a step on this GPU."
-- achieved_gflop_per_s = "flop / window_ns."
-- peak_gflop_per_s = "What this GPU could reach."
-- mfu_ratio = "achieved_gflop_per_s / peak_gflop_per_s."
-- precision = "The precision whose peak is taken."
-- flop_source = "given, model, ncu or shapes; recomputation is part of the last two."
-- peak_source = "given, specification, measured or ncu."
-- refused = "Why there is no figure."
-- flop = "FLOPs in the time."
-- window_ns = "The time: first start to last end of the steps and of the kernels launched in them, else of the device's activity; of a scope without what lies or runs between."
-- kernel_ns = "Durations of the kernels in the time that do not communicate, added up."
-- matched_ns = "Durations of those of them whose FLOPs are known, added up."
-- matched_ratio = "matched_ns / kernel_ns."
-- device_name = "common"
-- ncu_run = "common"
-- peak_run = "The run that a measured peak is of."
-- [report]
-- section = "roofline"
-- order = 3
-- needs = ["kernel_metrics"]
-- show_if = "mfu_ratio is not null"
-- without = "no run has both a count of its FLOPs and the peak of its GPU: add --flop-per-step, or ingest what ncu counted of the same program"
-- [[report.findings]]
-- when = "mfu_ratio is not null"
-- by = "-mfu_ratio"
-- text = "{where} uses {mfu_ratio %} of its peak for arithmetic: {achieved_gflop_per_s} of {peak_gflop_per_s}[, in steps of {step_ns}]."
-- advice = "What is missing is idle time, exposed communication or kernels below their roof: see the sections above."
-- [[report.findings]]
-- when = "refused is not null"
-- by = "kernel_ns"
-- text = "[{where}: ]there is no figure: {refused}."
-- advice = "Add `--flop-per-step` and `--peak-gflop-per-s`, or profile a whole step with ncu."
-- ///
with pairs as materialized (
    from timed_pairs($run, $ncu)
),
profiled as materialized (
    select * replace (row_number() over () as id)  -- a number joins faster than the four columns that an id is made of
    from ncu_launches
    where run in (select ncu_run from pairs)
),
flops as materialized (
    select id, precision, flop from launch_flop('profiled', $half)
),
-- /// if from = counters
marks as materialized (
    from step_marks('pairs', $rank, $step_name)
),
ranges as (
    from scope_step_ranges('marks')
),
timed as not materialized (  -- each use reads only its own columns
    from kernels_of_steps('pairs', 'ranges', $rank, $device)
),
executions as (
    select
        k.run, k.rank, k.device, k.name, k.start_ns, k.dur_ns, k.correlation, p.ncu_run,
        k.grid_x, k.grid_y, k.grid_z, k.block_x, k.block_y, k.block_z, k.shared_static_bytes, k.shared_dynamic_bytes
    from timed as k
    join hint_small('pairs') as p on k.run = p.run
    where $from = 'counters'
),
matches as materialized (
    from match_launches('executions', 'profiled')
),
found as materialized (
    select m.run, m.rank, m.device, m.ncu_run, m.executions, m.dur_ns, c.class, m.id, f.flop * m.executions as flop
    from matches as m
    join classify('matches') as c on m.name is not distinct from c.name
    left join flops as f on m.id = f.id and f.precision = 'all' and m.match in ('exact', 'periodic', 'shape')
),
-- /// end
-- /// if from = shapes
by_precision as not materialized (
    from shape_flops where matches(run, $run) and matches(rank, $rank) and matches(device, $device)
),
-- /// end
times as (
    select run, rank, device, window_ns, coalesce($step_count, steps) as steps
    from (
        select null as run, null as rank, null as device, null as window_ns, null as steps where false
        -- /// if from = counters
        union all
        from step_windows('pairs', 'marks', 'ranges', 'timed', $rank, $device) where $from = 'counters'
        -- /// end
        -- /// if from = shapes
        union all
        select distinct run, rank, device, window_ns, steps from by_precision where $from = 'shapes'
        -- /// end
    )
),
sums as (
    select
        null as run, null as rank, null as device, null::varchar as ncu_run, null as kernel_ns, null as matched_ns, null as flop
    where false
    -- /// if from = counters
    union all
    select
        run, rank, device,
        any_value(ncu_run) as ncu_run,
        coalesce(sum(dur_ns) filter (class <> 'communication'), 0) as kernel_ns,
        coalesce(sum(dur_ns) filter (class <> 'communication' and flop is not null), 0) as matched_ns,
        sum(flop) as flop
    from found
    group by run, rank, device
    -- /// end
    -- /// if from = shapes
    union all
    select run, rank, device, null, sum(kernel_ns), coalesce(sum(matched_ns), 0), sum(flop)
    from by_precision
    where kernel_ns is not null and $from = 'shapes'
    group by run, rank, device
    -- /// end
),
dominant as (
    select run, rank, device, arg_max(precision, (flop, precision)) as precision
    from (
        select null as run, null as rank, null as device, null as precision, null as flop where false
        -- /// if from = counters
        union all
        select m.run, m.rank, m.device, f.precision, sum(f.flop * m.executions) as flop
        from found as m
        join flops as f on m.id = f.id
        where m.flop is not null and f.precision <> 'all' and f.flop > 0
        group by m.run, m.rank, m.device, f.precision
        -- /// end
        -- /// if from = shapes
        union all
        select run, rank, device, precision, flop from by_precision where precision is not null and flop > 0 and $from = 'shapes'
        -- /// end
    )
    group by run, rank, device
),
chosen as (
    select
        t.run, t.rank, t.device, t.window_ns, t.steps,
        s.ncu_run, s.kernel_ns, s.matched_ns,
        s.matched_ns / nullif(s.kernel_ns, 0) as coverage,
        case r.parallelism when 'dp' then greatest(r.gpus, 1) when 'tp' then greatest(r.world_size, 1) else 1 end as shares,
        case
            when $flop_per_step is not null then 'given'
            when $passes is not null then 'model'
            when s.flop is not null then case $from when 'counters' then 'ncu' else 'shapes' end
        end as flop_source,
        case flop_source
            when 'given' then $flop_per_step * t.steps
            when 'model' then $passes * r.flop_per_sample * samples_per_step(r.batch_size, r.tags) / shares * t.steps
            else s.flop
        end as flop,
        coalesce(
            $precision,
            l.precision,
            case r.precision when 'fp32' then 'fp32' else 'tensor_' || r.precision end
        ) as precision
    from times as t
    left join sums as s on t.run = s.run and t.rank = s.rank and t.device is not distinct from s.device
    left join dominant as l on t.run = l.run and t.rank = l.rank and t.device is not distinct from l.device
    left join runs as r on t.run = r.run
),
cards as materialized (from card_facts('times', null)),
reported as (
    select w.run as ncu_run, k.ceiling, max(k.per_s) as per_s
    from launch_peaks('profiled') as k
    join profiled as w on k.id = w.id
    group by w.run, k.ceiling
),
peaked as (
    select
        c.*, d.name as device_name,
        case when coalesce($ceilings, 'specification') = 'specification' then s.per_s end as specified,
        case when coalesce($ceilings, 'measured') = 'measured' then m.per_s end as measured,
        case when coalesce($ceilings, 'ncu') = 'ncu' then n.per_s end as reported,
        coalesce($peak_gflop_per_s, specified, measured, reported) as peak,
        case
            when $peak_gflop_per_s is not null then 'given'
            when specified is not null then 'specification'
            when measured is not null then 'measured'
            when reported is not null then 'ncu'
        end as peak_source,
        case when peak_source = 'measured' then m.of_run end as peak_run,
        case when peak_source = 'measured' then m.best_per_s else peak end as most,  -- a burst exceeds a sustained ceiling
        c.flop / nullif(c.window_ns, 0) as achieved
    from chosen as c
    left join cards as d on c.run = d.run and c.rank = d.rank and c.device is not distinct from d.device
    left join specified_ceilings('cards') as s
        on c.run = s.run and c.rank = s.rank and c.device is not distinct from s.device and c.precision = s.ceiling
    left join measured_ceilings('cards', $ceilings_run) as m
        on c.run = m.run and c.rank = m.rank and c.device is not distinct from m.device and c.precision = m.ceiling
    left join reported as n on c.ncu_run = n.ncu_run and c.precision = n.ceiling
),
judged as (
    select
        *,
        case
            when flop_source = 'given' and flop is null then 'no whole step is known: name their ranges with --step-name, or --step-count'
            when flop_source = 'model' and flop is null
            then 'the run has no flop_per_sample and batch_size, or no whole step is known (--step-name, --step-count)'
            when flop_source in ('given', 'model') then null
            when $from = 'shapes' and flop is null
            then 'no op has a formula and recorded shapes: record them (record_shapes=True of the PyTorch profiler), or add --flop-per-step'
            when $from = 'counters' and ncu_run is null
            then 'no run with counters of this program: name one with --ncu, take FLOPs of shapes with --from shapes, or add --flop-per-step'
            when coalesce(coverage, 0) < $min_coverage
            then printf('the FLOPs of %.1f %% of the kernels'' time are known, below --min-coverage %g', 100 * coalesce(coverage, 0), $min_coverage)
        end as no_flop,
        case
            when no_flop is not null then no_flop
            when precision is null and peak is null
            then 'the precision of the FLOPs is not known: add --precision, such as tensor_bf16, or --peak-gflop-per-s'
            when peak is null
            then 'no peak of ' || precision || ' is known: measure ceilings, or add --peak-gflop-per-s'
            when achieved > most
            then printf('%.1f %% of the peak cannot be: the FLOPs, the time, the precision or the peak are wrong', 100 * achieved / most)
        end as refused
    from peaked
)
select
    run, rank, device,
    steps::bigint as steps,
    as_bigint(round(window_ns / nullif(steps, 0))) as step_ns,
    case when no_flop is null then as_bigint(round(flop / nullif(steps, 0))) end as flop_per_step,
    case when no_flop is null then achieved end as achieved_gflop_per_s,
    peak as peak_gflop_per_s,
    case when refused is null then achieved / nullif(peak, 0) end as mfu_ratio,
    precision, flop_source, peak_source, refused,
    case when no_flop is null then as_bigint(round(flop)) end as flop,
    window_ns,
    as_bigint(coalesce(kernel_ns, 0)) as kernel_ns,
    as_bigint(coalesce(matched_ns, 0)) as matched_ns,
    coverage as matched_ratio,
    device_name, ncu_run, peak_run
from judged
order by run, rank, device
