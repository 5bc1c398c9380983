-- From which batch size on more GPUs are faster than fewer.
-- A row is one layout of more than the fewest GPUs, with all the batch sizes at which both it and the fewest GPUs have a
-- speed (see sweep_scaling for what is compared). The crossover is the smallest batch size from which on it was faster at
-- every batch size tried; NULL where it was slower at the largest one. `estimated_batch_size` is where the speed-up passes
-- 1 between the last slower and the first faster one, read off a straight line through the logarithms and rounded up.
-- Below the crossover, communication costs more than the GPUs save.
-- /// query
-- title = "Crossover batch size"
-- needs = ["steps"]
-- show = [
--     "sweep", "model", "layout", "variant", "crossover_batch_size",
--     "estimated_batch_size", "smallest_speedup_factor", "largest_speedup_factor",
-- ]
-- chart = { kind = "bars", x = "layout", y = ["crossover_batch_size", "estimated_batch_size"], by = "model" }
-- [params]
-- sweep = { example = "generated-scaling" }
-- common = ["model", "same", "ignore"]
-- [columns]
-- sweep = "The sweep."
-- common = ["model", "layout", "variant"]
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
-- section = "sweeps"
-- order = 6
-- needs = ["steps"]
-- show_if = "common"
-- unknown = "From which batch size on more GPUs are faster is not known: no batch size has a speed on both."
-- [[report.findings]]
-- when = "crossover_batch_size is null and batch_sizes > 0"
-- by = "largest_batch_size"
-- text = "{layout} is slower than fewer processors ({base_processors})[ with {model}], also at the largest batch size that both ran, {largest_batch_size}."
-- advice = "Larger batches are worth trying, as far as memory allows; else run the job on fewer GPUs."
-- [[report.findings]]
-- when = "crossover_batch_size > 0"
-- by = "crossover_batch_size"
-- text = "{layout} is faster than fewer processors ({base_processors})[ with {model}] from a batch size of {crossover_batch_size} on; at {largest_batch_size} by a factor of {largest_speedup_factor}."
-- advice = "Below that batch size use fewer GPUs: communication costs more than they save."
-- ///
with selected as (
    from cell_speeds where matches(sweep, $sweep) and matches(model, $model)
),
compared as (
    select
        {'sweep': sweep, 'alike': alike, 'gpu': settings['gpu'], 'layout': layout} as line,
        sweep, model, kind, layout, processors, parallelism, variant, shared_batch, speedup_factor, base_processors,
        speedup_factor is not null and base_processors < processors as is_compared,
        min(base_processors) over (partition by sweep, alike, kind, settings['gpu']) as fewest
    from compared_cells('selected', $same, $ignore)
    where shared_batch is not null
),
pairs as (
    select *, lag(shared_batch) over batches as before_batch, lag(speedup_factor) over batches as before_factor
    from compared
    where is_compared
    window batches as (partition by line order by shared_batch, speedup_factor)
),
slower as (
    select line, max(shared_batch) filter (speedup_factor <= 1) as largest_slower from pairs group by line
),
firsts as (
    select line, min_by({'batch': shared_batch, 'factor': speedup_factor, 'before_batch': before_batch,
        'before_factor': before_factor}, shared_batch) as first
    from pairs
    join slower using (line)
    where shared_batch > coalesce(largest_slower, -1)
    group by line
),
lines as (
    select
        line,
        any_value(sweep) as sweep,
        any_value(model) as model,
        any_value(kind) as kind,
        any_value(layout) as layout,
        string_agg(distinct variant, ' | ' order by variant) as variant,
        any_value(processors) as processors,
        any_value(parallelism) as parallelism,
        min(base_processors) filter (is_compared) as base_processors,
        count(distinct shared_batch) filter (is_compared) as batch_sizes,
        min(shared_batch) filter (is_compared) as smallest_batch_size,
        max(shared_batch) filter (is_compared) as largest_batch_size,
        min_by(speedup_factor, shared_batch) filter (is_compared) as smallest_speedup_factor,
        max_by(speedup_factor, shared_batch) filter (is_compared) as largest_speedup_factor,
        count(distinct shared_batch) - count(distinct shared_batch) filter (is_compared) as uncompared
    from compared
    where processors > fewest
    group by line
)
select
    l.sweep, l.model, l.layout, l.variant,
    l.base_processors::bigint as base_processors,
    f.first.batch::bigint as crossover_batch_size,
    as_bigint(ceil(round(
        f.first.before_batch
        * (f.first.batch / f.first.before_batch)
        ** (ln(f.first.before_factor) / (ln(f.first.before_factor) - ln(f.first.factor))),
        9
    ))) as estimated_batch_size,
    l.batch_sizes,
    l.smallest_batch_size::bigint as smallest_batch_size,
    l.largest_batch_size::bigint as largest_batch_size,
    s.largest_slower::bigint as largest_slower_batch_size,
    l.smallest_speedup_factor, l.largest_speedup_factor, l.uncompared
from lines as l
left join slower as s on l.line = s.line
left join firsts as f on l.line = f.line
order by l.sweep, l.model, l.variant, l.kind, l.processors, l.parallelism, l.layout
