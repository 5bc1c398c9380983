-- Status of each cell of a sweep: it ran, ran out of memory, ran out of time, failed, or never ran.
-- A row is one run, a repeat of one cell. Nothing is left out: a cell that failed is a row with its status, so that means
-- over a sweep can be read beside what is missing from them (such as large batches that ran out of memory). `variant` are the
-- settings, beside model, batch size and GPUs, that differ within the sweep. A run with only a trace has no
-- status. sweep_status counts a sweep's cells by status, and those never ingested.
-- /// query
-- title = "Cells of a sweep"
-- needs = ["runs"]
-- show = ["run", "sweep", "model", "batch_size", "layout", "status", "error", "gpu"]
-- chart = { kind = "grid", x = "batch_size", y = ["status"], by = "layout", panel = ["model", "variant"] }
-- [params]
-- common = ["run"]
-- sweep = { example = "generated-scaling" }
-- model = "common"
-- [columns]
-- common = ["run", "sweep", "model", "batch_size", "layout", "variant", "repeat", "status"]
-- error = "What went wrong, in one sentence."
-- steps = "Training steps that were done."
-- gpus = "GPUs used."
-- parallelism = "common"
-- gpu = "GPU model name."
-- [report]
-- section = "sweeps"
-- order = 2
-- show_if = "common"
-- ok_text = "Every cell that was ingested ran to its end."
-- unknown = "How the cells ended is not known: none has a status."
-- [[report.findings]]
-- when = "status <> 'ok'"
-- by = "batch_size"
-- each = "status"
-- most = 4
-- text = "Cells ended as {status}[, the largest batch among them {model}][ with {batch_size}][ on {layout}]."
-- advice = "What ran out of memory, failed or never ran has no speed below; what a time limit ended, or a profiler failed in, has that of the steps it took."
-- ///
select
    c.run, c.sweep, c.model,
    c.batch_size::bigint as batch_size,
    c.layout, c.variant,
    c.repeat::bigint as repeat,
    c.status, c.error,
    coalesce(s.steps, 0) as steps,
    c.gpus::bigint as gpus,
    c.parallelism, c.gpu
from cells as c
left join run_speeds as s on c.run = s.run
where matches(c.run, $run) and matches(c.sweep, $sweep) and matches(c.model, $model)
order by c.sweep, c.model, c.variant, c.batch_size, c.kind, c.processors, c.parallelism, c.repeat, c.run
