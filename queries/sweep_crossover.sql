-- From which batch size on more GPUs are faster than fewer.
-- A row is one layout of more than the fewest GPUs, with all the batch sizes at which both it and the fewest GPUs have a
-- speed (see sweep_scaling for what is compared). The crossover is the smallest batch size from which on it was faster at
-- every batch size tried; NULL where it was slower at the largest one. `estimated_batch_size` is where the speed-up passes
-- 1 between the last slower and the first faster one, read off a straight line through the logarithms and rounded up.
-- Below the crossover, what the GPUs tell each other costs more than what they save.
-- /// query
-- title = "Crossover batch size"
-- needs = ["steps"]
-- chart = { kind = "bars", x = "layout", y = ["crossover_batch_size", "estimated_batch_size"], by = "model" }
-- [params]
-- sweep = { type = "text", example = "generated-scaling", about = "only this sweep" }
-- model = { type = "text", about = "only this model" }
-- same = { default = "process", choices = ["process", "global"], about = "the batch size that compared cells share: of one process's loader, or over all" }
-- ignore = { type = "text", about = "settings in which compared cells may differ too, separated by commas" }
-- [columns]
-- sweep = "The sweep."
-- model = "The model."
-- layout = "Where it ran: 1 GPU, 4 GPUs ddp, CPU …"
-- variant = "The other settings that differ within the sweep."
-- base_processors = "Processors of the cells compared with."
-- crossover_batch_size = "The smallest batch size from which on all are faster."
-- estimated_batch_size = "Where the speed-up passes 1; NULL where it does so below the smallest batch size, or never."
-- batch_sizes = "Batch sizes compared."
-- smallest_batch_size = "The smallest of them."
-- largest_batch_size = "The largest of them."
-- largest_slower_batch_size = "The largest at which it was not faster."
-- smallest_speedup_factor = "The speed-up at the smallest batch size."
-- largest_speedup_factor = "The speed-up at the largest batch size."
-- uncompared = "Batch sizes at which one of the two has no speed: it ran out of memory, or never ran."
-- [report]
-- part = "sweeps"
-- place = 6
-- ///
with asked as (
    from cell_speeds where picked(sweep, $sweep) and picked(model, $model)
),
compared as (
    select
        sweep, model, layout, processors, parallelism, variant, run, shared_batch, speedup_factor, base_processors,
        speedup_factor is not null and base_processors < processors as is_compared,
        min(base_processors) over (partition by sweep, model, kind, variant) as fewest
    from compared_cells('asked', $same, $ignore)
    where shared_batch is not null
),
pairs as (
    select *, lag(shared_batch) over batches as before_batch, lag(speedup_factor) over batches as before_factor
    from compared
    where is_compared
    window batches as (partition by sweep, model, layout, variant order by shared_batch)
),
slower as (
    select sweep, model, layout, variant, max(shared_batch) filter (speedup_factor <= 1) as largest_slower
    from pairs
    group by sweep, model, layout, variant
),
firsts as (
    select p.sweep, p.model, p.layout, p.variant, min_by(p, p.shared_batch) as first
    from pairs as p
    join slower as s
        on p.sweep is not distinct from s.sweep and p.model is not distinct from s.model and p.layout = s.layout
        and p.variant is not distinct from s.variant
    where p.shared_batch > coalesce(s.largest_slower, -1)
    group by p.sweep, p.model, p.layout, p.variant
),
layouts as (
    select
        sweep, model, layout, variant,
        any_value(processors) as processors,
        any_value(parallelism) as parallelism,
        min(base_processors) filter (is_compared) as base_processors,
        count(*) filter (is_compared) as batch_sizes,
        min(shared_batch) filter (is_compared) as smallest_batch_size,
        max(shared_batch) filter (is_compared) as largest_batch_size,
        min_by(speedup_factor, shared_batch) filter (is_compared) as smallest_speedup_factor,
        max_by(speedup_factor, shared_batch) filter (is_compared) as largest_speedup_factor,
        count(*) filter (not is_compared) as uncompared
    from compared
    where processors > fewest
    group by sweep, model, layout, variant
)
select
    l.sweep, l.model, l.layout, l.variant,
    l.base_processors::bigint as base_processors,
    f.first.shared_batch::bigint as crossover_batch_size,
    whole(ceil(round(
        f.first.before_batch
        * (f.first.shared_batch / f.first.before_batch)
        ** (ln(f.first.before_factor) / (ln(f.first.before_factor) - ln(f.first.speedup_factor))),
        9
    ))) as estimated_batch_size,
    l.batch_sizes,
    l.smallest_batch_size::bigint as smallest_batch_size,
    l.largest_batch_size::bigint as largest_batch_size,
    s.largest_slower::bigint as largest_slower_batch_size,
    l.smallest_speedup_factor, l.largest_speedup_factor, l.uncompared
from layouts as l
left join slower as s
    on l.sweep is not distinct from s.sweep and l.model is not distinct from s.model and l.layout = s.layout
    and l.variant is not distinct from s.variant
left join firsts as f
    on l.sweep is not distinct from f.sweep and l.model is not distinct from f.model and l.layout = f.layout
    and l.variant is not distinct from f.variant
order by l.sweep, l.model, l.variant, l.processors, l.parallelism, l.layout
