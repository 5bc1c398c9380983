-- Effect of a larger batch, and of more GPUs, at each point of a sweep.
-- A row is one cell, its repeats taken together. Each elasticity is d log(samples/s) / d log(batch size), or of GPUs, from
-- the next smaller batch size of the same layout, or the next fewer GPUs of the same parallelism (or of none): 1 where
-- doubling it doubled the speed, 0 where it brought nothing, below 0 where it cost. They compare samples a second; the time
-- of a step, or summed GPU time, would reward large batches for having fewer steps. NULL at the beginning of an axis. Cells
-- without a speed are no points: their neighbors are compared across them.
-- /// query
-- title = "Effect of batch size and of GPUs"
-- needs = ["steps"]
-- show = [
--     "sweep", "model", "batch_size", "layout", "samples_per_s",
--     "batch_elasticity", "processors", "gpus_elasticity",
-- ]
-- chart = { kind = "grid", x = "batch_size", y = ["batch_elasticity", "gpus_elasticity"], by = "layout", panel = ["model", "variant"] }
-- [params]
-- sweep = { example = "generated-scaling" }
-- common = ["model", "same", "ignore"]
-- [columns]
-- sweep = "The sweep."
-- common = ["model", "batch_size", "layout", "variant", "samples_per_s"]
-- batch_elasticity = "log(samples_per_s / smaller_batch_samples_per_s) / log(batch_size / smaller_batch_size)."
-- smaller_batch_size = "The next smaller batch size of the same layout."
-- smaller_batch_samples_per_s = "Samples a second there."
-- gpus_elasticity = "log(samples_per_s / fewer_samples_per_s) / log(processors / fewer_processors)."
-- processors = "common"
-- fewer_processors = "The next fewer of them."
-- fewer_samples_per_s = "Samples a second there."
-- fewer_layout = "Where that one ran."
-- [report]
-- section = "sweeps"
-- order = 7
-- needs = ["steps"]
-- show_if = "common"
-- ok_text = "Where the batch doubles, training gets faster by a quarter or more."
-- unknown = "What a larger batch brings is not known: no layout has a speed at two batch sizes."
-- [[report.findings]]
-- when = "batch_elasticity < 0.322"
-- by = "-batch_elasticity"
-- text = "[{model}, ]{layout}: going from batch {smaller_batch_size} to {batch_size} hardly pays; samples a second go from {smaller_batch_samples_per_s} to {samples_per_s}, an elasticity of {batch_elasticity}."
-- advice = "The device is full, or something else is slow: stay with the smaller batch, and see what the step waits for."
-- ///
with selected as (
    from cell_speeds where matches(sweep, $sweep) and matches(model, $model)
),
points as materialized (
    select *, row_number() over (order by sweep, settings::varchar) as id
    from compared_cells('selected', $same, $ignore)
    where samples_per_s > 0
),
smaller as (
    select p.id, b.batch_size, b.samples_per_s
    from points as p
    join points as b
        on p.sweep is not distinct from b.sweep and p.alike = b.alike and p.layout = b.layout
        and p.settings['gpu'] is not distinct from b.settings['gpu'] and p.batch_size > b.batch_size
    qualify row_number() over (partition by p.id order by b.batch_size desc, b.run) = 1
),
fewer as (
    select p.id, b.processors, b.layout, b.samples_per_s
    from points as p
    join points as b
        on p.sweep is not distinct from b.sweep and p.alike = b.alike and p.kind = b.kind
        and p.settings['gpu'] is not distinct from b.settings['gpu'] and p.shared_batch is not distinct from b.shared_batch
        and p.processors > b.processors
        and (p.parallelism is not distinct from b.parallelism or coalesce(b.parallelism, 'none') = 'none')
    qualify row_number() over (
        partition by p.id order by b.processors desc, p.parallelism is distinct from b.parallelism, b.run
    ) = 1
)
select
    p.sweep, p.model,
    p.batch_size::bigint as batch_size,
    p.layout, p.variant, p.samples_per_s,
    ln(p.samples_per_s / s.samples_per_s) / ln(p.batch_size / s.batch_size) as batch_elasticity,
    s.batch_size::bigint as smaller_batch_size,
    s.samples_per_s as smaller_batch_samples_per_s,
    ln(p.samples_per_s / f.samples_per_s) / ln(p.processors / f.processors) as gpus_elasticity,
    p.processors::bigint as processors,
    f.processors::bigint as fewer_processors,
    f.samples_per_s as fewer_samples_per_s,
    f.layout as fewer_layout
from points as p
left join smaller as s on p.id = s.id
left join fewer as f on p.id = f.id
order by p.sweep, p.model, p.variant, p.batch_size, p.kind, p.processors, p.parallelism, p.id
