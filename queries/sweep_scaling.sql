-- What more GPUs bring: speed-up and efficiency against the fewest, and against a processor.
-- A row is one cell of a sweep, its repeats taken together. It is compared with the cell that differs in nothing but the
-- GPUs and how they work together, and has the fewest of them: of several, the one of the same parallelism, else the one
-- without. The fewest are those of all batch sizes together; where that cell has no speed, for example out of memory,
-- there is no speed-up; nor where all have the same number of processors, and more than one. The speed-up is one of samples
-- a second. `scaling` is what the two share: strong, the samples of a step over all processes; weak, those of each
-- process. With --same global the compared cells share the former, otherwise the loader's batch size, which DataParallel
-- divides and DistributedDataParallel does not. `over_cpu_factor` compares with the CPU cell of the fewest processes and the
-- same batch. Cells without a speed stay, with their status; `run` is the first of several repeats by name.
-- /// query
-- title = "Speed-up by GPUs"
-- needs = ["steps"]
-- show = [
--     "sweep", "model", "batch_size", "processors", "parallelism",
--     "samples_per_s", "speedup_factor", "efficiency_ratio",
-- ]
-- chart = { kind = "curves", x = "batch_size", y = ["speedup_factor", "efficiency_ratio"], by = "layout", panel = ["model", "variant"] }
-- [params]
-- sweep = { example = "generated-scaling" }
-- common = ["model", "same", "ignore"]
-- [columns]
-- sweep = "The sweep."
-- common = ["model", "batch_size", "processors", "parallelism", "variant", "layout"]
-- status = "Status of the runs of the cell."
-- samples_per_s = "common"
-- base_processors = "Processors of the cell compared with."
-- base_samples_per_s = "Its samples a second."
-- speedup_factor = "common"
-- processor_factor = "processors / base_processors."
-- efficiency_ratio = "speedup_factor / processor_factor."
-- scaling = "strong, weak, or neither, by what the two cells share; NULL for a cell compared with itself or with none."
-- cpu_samples_per_s = "Samples a second of the CPU cell."
-- over_cpu_factor = "samples_per_s / cpu_samples_per_s."
-- step_ns = "Mean duration of a training step, rounded."
-- global_batch_size = "common"
-- run = "common"
-- base_run = "common"
-- [report]
-- section = "sweeps"
-- order = 5
-- needs = ["steps"]
-- show_if = "common"
-- unknown = "What more GPUs bring is not known: no cell has a speed beside one of fewer GPUs."
-- [[report.findings]]
-- when = "speedup_factor < 1 and processor_factor > 1"
-- by = "batch_size"
-- text = "More GPUs are slower than {base_processors}: {model} at batch {batch_size} on {layout} reaches {samples_per_s} samples/s against {base_samples_per_s}, a factor of {speedup_factor}."
-- advice = "Below the crossover batch size communication costs more than it saves."
-- [[report.findings]]
-- when = "efficiency_ratio > 0 and processor_factor > 1"
-- by = "efficiency_ratio"
-- text = "The best efficiency: {model} at batch {batch_size} on {layout}, a speed-up of {speedup_factor} with {processor_factor} times the processors (efficiency {efficiency_ratio %})."
-- advice = "Where the others lose: compare exposed communication and idle time of their runs."
-- ///
with selected as (
    from cell_speeds where matches(sweep, $sweep) and matches(model, $model)
)
select
    sweep, model,
    batch_size::bigint as batch_size,
    processors::bigint as processors,
    parallelism, variant, layout, status, samples_per_s,
    base_processors::bigint as base_processors,
    base_samples_per_s, speedup_factor,
    processors / base_processors as processor_factor,
    speedup_factor / nullif(processors / base_processors, 0) as efficiency_ratio,
    case
        when coalesce(base_run, run) = run then null
        when global_batch_size = base_global_batch_size then 'strong'
        when batch_size = base_batch_size then 'weak'
        when batch_size is not null then 'neither'
    end as scaling,
    cpu_samples_per_s,
    samples_per_s / nullif(cpu_samples_per_s, 0) as over_cpu_factor,
    step_ns,
    global_batch_size::bigint as global_batch_size,
    run, base_run
from compared_cells('selected', $same, $ignore)
order by sweep, model, variant, batch_size, kind, processors, parallelism, run
