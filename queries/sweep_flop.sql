-- How many floating-point operations a sample takes: by the model's layers, and as profilers counted them.
-- A row is one run and way of counting: `model`, a forward pass by the sizes of its layers (a multiply-add is two);
-- `ops`, what PyTorch's profiler wrote beside products and convolutions; `ncu`, what the counters of single kernels add up
-- to (see kernel_flop); and each FLOP counter of nvprof's summary, whose mean a launch times its launches is taken. A
-- profiler counts what it recorded: `flop_per_sample` divides by the batch size and by the batches in it. These are
-- --batches, else the steps recorded according to the run folder, of all ranks that were counted, else 1. The mean over
-- launches separates kernels that ran often from those that ran once; `name_mean_flop`, the plain mean over rows of a
-- table, does not, and is no count of anything. Counters count what their name promises: flop_count_dp of a program in
-- single precision is 0 but for the few kernels that use doubles.
-- /// query
-- title = "FLOPs by batch size"
-- needs = ["runs"]
-- show = ["run", "model", "batch_size", "layout", "flop_per_sample", "flop", "launches", "parameters"]
-- chart = { kind = "curves", x = "batch_size", y = ["flop_per_sample", "launch_mean_flop"], by = "counted_from", panel = ["model", "variant"] }
-- hints = [
--     { when = "not exists (from cells where matches(run, $run) and flop_per_sample is not null) and not exists (from ncu_launches where matches(run, $run)) and not exists (from summaries where matches(run, $run) and (flop is not null or starts_with(metric, 'flop_count_')))", text = "no run of a sweep has FLOPs: of a model that collect knows, of ncu or nvprof, or of PyTorch's profiler (with_flops=True)", empty = true },
-- ]
-- [params]
-- common = ["run"]
-- sweep = { example = "generated-shares" }
-- model = "common"
-- batches = { type = "integer", about = "how many batches the counted launches computed, where the run folder does not record it" }
-- half = "common"
-- [columns]
-- common = ["run", "sweep", "model", "batch_size", "layout", "variant"]
-- counted_from = "model, ops, ncu, or the name of nvprof's counter."
-- flop_per_sample = "flop / (batch_size × batches), rounded; of the model as the run records it."
-- flop = "FLOPs counted in all; NULL where a needed counter is missing."
-- launches = "Launches, or calls of ops, that were counted."
-- launch_mean_flop = "flop / launches, rounded."
-- name_mean_flop = "Mean over the names of the mean of each, rounded: every name counts alike."
-- names = "Names that were counted."
-- parameters = "Parameters of the model."
-- batches = "Batches that were divided by: --batches, else recorded steps times ranks and the batches that a step accumulates, else 1; NULL where the recorded ones are not known."
-- [report]
-- section = "sweeps"
-- order = 11
-- needs = ["steps"]
-- show_if = "common"
-- unknown = "How many operations a sample takes is not known: neither the model, nor a profiler, counted them."
-- [[report.findings]]
-- when = "flop_per_sample > 0"
-- by = "flop_per_sample"
-- each = "counted_from"
-- most = 4
-- text = "By {counted_from}, a sample[ of {model}] takes at most {flop_per_sample} FLOPs[, at batch {batch_size}][ on {layout}]."
-- advice = "A model's own count is of a forward pass; a profiler's is of all that it recorded, divided by the batch size and the recorded batches. Compare only counts of one kind."
-- ///
with selected as materialized (
    select * from cells where matches(run, $run) and matches(sweep, $sweep) and matches(model, $model)
),
profiled as materialized (
    select * replace (row_number() over () as id) from ncu_launches semi join selected using (run)
),
plans as (  -- the window according to a run folder, whose steps are numbered from the first of the warm-up
    select
        run,
        tags['capture.window'] as recorded_window,
        samples_per_step(1, tags) as batches_per_step,
        try_cast(tags['warmup'] as bigint) as warmup,
        try_cast(tags['capture.wait'] as bigint) as wait,
        try_cast(tags['capture.active'] as bigint) as active,
        try_cast(tags['capture.cycles'] as bigint) as cycles
    from selected
    where tags['capture.window'] is not null
),
taken as (
    select
        run, rank,
        count(*) filter (phase <> 'validate') as steps,
        count(*) filter (phase = 'validate') as validations
    from steps
    semi join plans using (run)
    where phase in ('warmup', 'train', 'validate')
    group by run, rank
),
recorded as (  -- steps in the windows of each rank; not known where validation was recorded among them
    select
        p.run, t.rank,
        case
            when p.recorded_window <> 'all' then list_sum(list_transform(
                range(p.cycles),
                lambda cycle: greatest(0, least(p.active, t.steps - p.warmup - cycle * (p.wait + p.active) - p.wait))
            ))
            when t.validations = 0 then t.steps
        end as steps
    from plans as p
    join taken as t using (run)
),
by_launch as (
    select w.run, w.name, f.flop
    from launch_flop('profiled', $half) as f
    join profiled as w on f.id = w.id
    where f.precision = 'all'
),
by_name as (
    select run, 'ncu' as counted_from, name, count(*) as launches, complete_sum(flop) as flop
    from by_launch
    group by run, name
    union all
    select run, 'ops', name, sum(calls), sum(flop)
    from summaries
    semi join selected using (run)
    where flop is not null
    group by run, name
    union all
    select run, metric, name || coalesce(' on ' || device::varchar, ''), sum(calls), sum(value * calls)
    from summaries
    semi join selected using (run)
    where starts_with(metric, 'flop_count_') and value is not null
    group by run, metric, name, device
),
counts as (
    select
        run, counted_from,
        sum(launches) as launches,
        complete_sum(flop) as flop,
        avg(flop / nullif(launches, 0)) as name_mean,
        count(*) as names
    from by_name
    group by run, counted_from
),
counted_ranks as (
    select run, 'ncu' as counted_from, rank from profiled
    union
    select run, 'ops', rank from summaries semi join selected using (run) where flop is not null
    union
    select run, metric, rank from summaries semi join selected using (run) where starts_with(metric, 'flop_count_')
),
known_batches as (
    select c.run, c.counted_from, complete_sum(r.steps * p.batches_per_step) as batches
    from counted_ranks as c
    join plans as p on c.run = p.run
    left join recorded as r on c.run = r.run and c.rank = r.rank
    group by c.run, c.counted_from
),
answers as (
    select
        c.run, c.counted_from, c.launches, c.flop, c.name_mean, c.names,
        coalesce($batches, case when k.run is null then 1 else k.batches end) as batches
    from counts as c
    left join known_batches as k on c.run = k.run and c.counted_from = k.counted_from
    union all
    select run, 'model', null, null, null, null, null from selected where flop_per_sample is not null
)
select
    c.run, c.sweep, c.model,
    c.batch_size::bigint as batch_size,
    c.layout, c.variant, a.counted_from,
    as_bigint(round(case
        when a.counted_from = 'model' then c.flop_per_sample else a.flop / nullif(c.batch_size * a.batches, 0)
    end)) as flop_per_sample,
    as_bigint(round(a.flop)) as flop,
    as_bigint(a.launches) as launches,
    as_bigint(round(a.flop / nullif(a.launches, 0))) as launch_mean_flop,
    as_bigint(round(a.name_mean)) as name_mean_flop,
    a.names,
    c.parameters,
    a.batches::bigint as batches
from answers as a
join selected as c on a.run = c.run
order by c.sweep, c.model, c.variant, c.batch_size, c.run, a.counted_from
