-- How fast each run of a sweep trained: samples a second, time of a step and of an epoch, iterations of an epoch.
-- A row is one run. The figures are of the steps that the run itself wrote down: warm-up and validation do not count, and
-- where a profiler ran, its steps only if no others exist (`profiler_state`). Samples of all ranks are divided by the time of the slowest one. Larger batches need fewer
-- iterations, so only samples a second, or the time of an epoch, compare them. `expected_iterations` is
-- ceil(data set / (batch size × processes)); fewer were done where a limit of steps or of time ended the epoch, which is
-- then not whole, and has no time.
-- A run without steps is a row with its status.
-- /// query
-- title = "Throughput of a sweep"
-- needs = ["steps"]
-- show = ["run", "model", "batch_size", "layout", "status", "samples_per_s", "step_ns", "data_wait_ratio"]
-- chart = { kind = "curves", x = "batch_size", y = ["samples_per_s"], by = "layout", panel = ["model", "variant"] }
-- [params]
-- common = ["run"]
-- sweep = { example = "generated-scaling" }
-- model = "common"
-- [columns]
-- common = ["run", "sweep", "model", "batch_size", "layout", "variant", "repeat", "status"]
-- samples_per_s = "samples / train_ns, in a second."
-- step_ns = "Mean duration of a training step, over all ranks, rounded."
-- epoch_ns = "Mean duration of a whole epoch on its slowest rank, rounded; NULL where none was whole."
-- iterations = "common"
-- expected_iterations = "dataset_size / (batch_size × processes), rounded up; with CUDA graphs down."
-- dataset_size = "Samples of the data set, after data_fraction."
-- global_batch_size = "common"
-- samples = "Samples of these training steps, over all ranks."
-- train_ns = "Durations of these training steps on the slowest rank, added up."
-- data_wait_ns = "Time that these steps waited for the loader, over all ranks."
-- train_sum_ns = "Durations of these training steps of all ranks, added up."
-- data_wait_ratio = "common"
-- epochs = "Whole epochs: ended, with all their iterations."
-- profiler_state = "The profiler in the steps that these times are of: off, attached or recording."
-- [report]
-- section = "sweeps"
-- order = 3
-- needs = ["steps"]
-- show_if = "common"
-- unknown = "How fast the runs trained is not known: none wrote down its steps."
-- [[report.findings]]
-- when = "samples_per_s > 0"
-- by = "samples_per_s"
-- text = "The fastest is {run}[, {model}][ at batch {batch_size}][ on {layout}], with {samples_per_s} samples/s."
-- advice = "Compare samples a second, or whole epochs, not steps: a larger batch has fewer of them."
-- [[report.findings]]
-- when = "data_wait_ns > 0.1 * nullif(train_sum_ns, 0)"
-- by = "data_wait_ratio"
-- text = "{run} waits for data for {data_wait_ns of train_sum_ns} of its steps."
-- advice = "More loader workers, or a cache of what is decoded: until then the sweep compares loaders."
-- ///
select
    c.run, c.sweep, c.model,
    c.batch_size::bigint as batch_size,
    c.layout, c.variant,
    c.repeat::bigint as repeat,
    c.status,
    s.samples_per_s, s.step_ns, s.epoch_ns, s.iterations,
    c.expected_iterations, c.dataset_size,
    c.global_batch_size::bigint as global_batch_size,
    s.samples, s.train_ns, s.data_wait_ns, s.train_sum_ns,
    s.data_wait_ns / nullif(s.train_sum_ns, 0) as data_wait_ratio,
    coalesce(s.whole_epochs, 0) as epochs,
    s.profiler_state
from cells as c
left join run_speeds as s on c.run = s.run
where matches(c.run, $run) and matches(c.sweep, $sweep) and matches(c.model, $model)
order by c.sweep, c.model, c.variant, c.batch_size, c.kind, c.processors, c.parallelism, c.repeat, c.run
