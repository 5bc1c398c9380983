-- How long each run of a sweep computed on the processor and on the GPUs: the sums that a profiler's table prints, beside
-- the time that really passed.
-- A row is one run; its times are of what the profiler recorded, `recorded_steps` of each rank, added up over ranks and
-- devices. `gpu_sum_ns` is what key_averages() totals as self CUDA time: kernels that run at once count twice, and NCCL's
-- waiting for other ranks counts as work; `gpu_busy_ns` counts each moment of a device once. `cpu_self_ns` is its self CPU
-- time of ops; `cpu_total_ns` adds up the inclusive column, in which an op counts again in every op around it. Runs of
-- different lengths compare by `…_step_ns`, of one step of one rank: sums over all devices of the rank, as its table prints
-- them, but the busy time of one device, so that one process with four GPUs (DataParallel) compares with four of one each.
-- Different batch sizes compare by sweep_throughput.
-- /// query
-- title = "CPU and GPU time of a sweep"
-- needs = ["ops", "kernels"]
-- show = ["run", "model", "batch_size", "layout", "step_ns", "gpu_busy_step_ns", "cpu_self_step_ns", "epoch_ns"]
-- chart = { kind = "curves", x = "batch_size", y = ["gpu_busy_step_ns", "gpu_sum_step_ns", "cpu_self_step_ns"], by = "layout", panel = ["model", "variant"] }
-- [params]
-- run = "common"
-- sweep = { example = "generated-scaling" }
-- common = ["model", "step_name"]
-- [columns]
-- common = ["run", "sweep", "model", "batch_size", "layout", "variant", "repeat", "status", "ranks"]
-- devices = "Devices with activity, each rank's counted."
-- recorded_steps = "common"
-- cpu_self_ns = "Time in which an op ran on a thread, added up over threads: the self times of all ops."
-- cpu_total_ns = "Durations of all ops, added up: ops inside others count again."
-- gpu_sum_ns = "Durations of all kernels, copies, memsets and graphs, added up."
-- gpu_busy_ns = "Time in which at least one of them ran, added up over devices."
-- gpu_window_ns = "First start to last end of a device's kernels, copies, memsets and graphs, added up over devices."
-- of_window_ratio = "gpu_busy_ns / gpu_window_ns."
-- cpu_self_step_ns = "cpu_self_ns / recorded_steps, rounded."
-- gpu_sum_step_ns = "gpu_sum_ns / recorded_steps, rounded: over all devices of a rank."
-- gpu_busy_step_ns = "gpu_busy_ns / recorded_steps / (devices / ranks), rounded: of one device."
-- step_ns = "Mean duration of a training step as the run itself wrote it down, rounded."
-- epoch_ns = "Mean duration of a whole epoch on its slowest rank, rounded."
-- [report]
-- section = "sweeps"
-- order = 4
-- needs = ["steps"]
-- show_if = "common"
-- ok_text = "In every recorded run the GPUs are busy for at least 80 % of their windows."
-- unknown = "How busy the GPUs are is not known: no run of the sweep has a recording of GPU work."
-- [[report.findings]]
-- when = "of_window_ratio < 0.8"
-- by = "-of_window_ratio"
-- text = "{run} keeps its GPUs busy for only {gpu_busy_ns of gpu_window_ns} of their windows."
-- advice = "A larger batch, or fewer and larger launches, keep the GPUs busier; see the causes of idle time of that run."
-- ///
with selected as materialized (
    select * from cells where matches(run, $run) and matches(sweep, $sweep) and matches(model, $model)
),
-- /// if kept = false
activity as not materialized (
    select run, source, rank, device, start_ns, end_ns, dur_ns from gpu_activity semi join selected using (run)
),
calls as not materialized (
    select run, source, rank, pid, tid, start_ns, end_ns, dur_ns from ops semi join selected using (run)
),
-- /// end
times as materialized (
    -- /// if kept = true
    from busy_times semi join selected using (run)
    -- /// end
    -- /// if kept = false
    from busy_sums('activity', 'calls')
    -- /// end
),
marked as (
    select run, source, rank, pid, tid, name, scope, start_ns, end_ns from annotations semi join selected using (run)
),
step_counts as (
    select run, count(*) as recorded_steps from steps_of('marked', $step_name) group by run
)
select
    c.run, c.sweep, c.model,
    c.batch_size::bigint as batch_size,
    c.layout, c.variant,
    c.repeat::bigint as repeat,
    c.status,
    coalesce(t.ranks, 0) as ranks,
    coalesce(t.devices, 0) as devices,
    n.recorded_steps,
    t.cpu_self_ns, t.cpu_total_ns, t.gpu_sum_ns, t.gpu_busy_ns, t.gpu_window_ns,
    t.gpu_busy_ns / nullif(t.gpu_window_ns, 0) as of_window_ratio,
    as_bigint(round(t.cpu_self_ns / n.recorded_steps)) as cpu_self_step_ns,
    as_bigint(round(t.gpu_sum_ns / n.recorded_steps)) as gpu_sum_step_ns,
    as_bigint(round(t.gpu_busy_ns::hugeint * t.ranks / (n.recorded_steps * t.devices))) as gpu_busy_step_ns,
    s.step_ns, s.epoch_ns
from selected as c
left join times as t on c.run = t.run
left join step_counts as n on c.run = n.run
left join run_speeds as s on c.run = s.run
order by c.sweep, c.model, c.variant, c.batch_size, c.kind, c.processors, c.parallelism, c.repeat, c.run
