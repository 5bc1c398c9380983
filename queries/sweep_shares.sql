-- What share of each run of a sweep goes into broadcasts, Winograd convolutions, the backward pass of max pooling, and calls
-- that launch kernels: by each of the denominators in use.
-- A row is one run and share, all its ranks and devices added up. Of GPU work, of_gpu_activity is what nvprof prints as
-- Time(%); of calls, of_api_sum is its API half. Other rows of GPU work: all_reduce, every other convolution, and every
-- other kind of pooling backward; of calls with --by-call each function. A broadcast of DataParallel carries parameters
-- from GPU to GPU, no batches from the host: `step_ns`, its time a step, hardly changes with the batch size, and its share
-- falls because everything else grows. Compare the bytes it carried, where metadata have them, with the bytes of the
-- parameters. A launch is long where it waits for room in the queue. The runs recorded with --window backward hold the
-- backward pass alone.
-- /// query
-- title = "Shares by batch size"
-- needs = ["kernels", "api_calls"]
-- show = ["run", "model", "batch_size", "layout", "share", "dur_ns", "of_gpu_activity_ratio", "of_api_sum_ratio"]
-- chart = { kind = "curves", x = "batch_size", y = ["of_gpu_activity_ratio", "of_api_sum_ratio"], by = "share", panel = ["model", "layout", "variant"] }
-- [params]
-- common = ["run"]
-- sweep = { example = "generated-shares" }
-- model = "common"
-- share = { type = "text", about = "only this share: broadcast, winograd, max_pool_backward, launch …" }
-- by_call = { default = false, about = "a row for each function of the runtime and the driver, too" }
-- step_name = "common"
-- [columns]
-- common = ["run", "sweep", "model", "batch_size", "layout", "variant", "repeat"]
-- share = "What is counted: broadcast, all_reduce, winograd, other_convolution, max_pool_backward, other_pool_backward, launch, or a function."
-- calls = "Kernels, or calls."
-- dur_ns = "common"
-- gpu_activity_ns = "Durations of all kernels, copies, memsets and graphs, added up."
-- kernel_sum_ns = "Durations of all kernels, added up."
-- kernel_busy_ns = "Time in which at least one kernel ran, added up over devices."
-- window_ns = "First start to last end of a device's kernels, copies, memsets and graphs, added up over devices."
-- api_sum_ns = "Durations of all calls of the runtime and the driver, added up."
-- of_gpu_activity_ratio = "common"
-- of_kernel_sum_ratio = "common"
-- busy_ns = "Time in which at least one of these kernels ran, added up over devices."
-- of_kernel_busy_ratio = "common"
-- of_window_ratio = "common"
-- of_api_sum_ratio = "common"
-- recorded_steps = "common"
-- step_ns = "dur_ns / recorded_steps, rounded."
-- calls_per_step = "calls / recorded_steps."
-- step_bytes = "Bytes of a step from the metadata of these collectives, rounded; NULL where none have them."
-- parameter_bytes = "Bytes of the model's parameters."
-- [report]
-- section = "sweeps"
-- order = 9
-- needs = ["steps"]
-- show_if = "common"
-- ok_text = "Broadcasts take at most 10 % of the GPU work of every run."
-- unknown = "Which share broadcasts have is not known: no run of the sweep has a recording of GPU work."
-- [[report.findings]]
-- when = "case when gpu_activity_ns > 0 then share = 'broadcast' and dur_ns > 0.1 * gpu_activity_ns end"
-- by = "of_gpu_activity_ratio"
-- text = "{run} spends {dur_ns of gpu_activity_ns} of its GPU work in broadcasts."
-- advice = "DataParallel broadcasts the model in every step, at any batch size: use DDP, or a larger batch."
-- ///
with selected as materialized (
    select * from cells where matches(run, $run) and matches(sweep, $sweep) and matches(model, $model)
),
-- /// if kept = false
activity as not materialized (
    select run, source, rank, device, start_ns, end_ns, dur_ns from gpu_activity semi join selected using (run)
),
executions as not materialized (
    select run, source, rank, pid, device, stream, name, start_ns, end_ns, dur_ns, correlation
    from kernels
    semi join selected using (run)
),
-- /// end
gpu_parts as materialized (
    -- /// if kept = true
    from gpu_share_times semi join selected using (run)
    -- /// end
    -- /// if kept = false
    from gpu_share_sums('activity', 'executions')
    -- /// end
),
launches as (
    select
        run, name,
        case when has_valid_interval(start_ns, end_ns) then dur_ns else 0 end as dur_ns,
        regexp_matches(name, '^(cuda|cu|hip)(Launch|GraphLaunch|ModuleLaunch)') as is_launch
    from api_calls
    semi join selected using (run)
    where api in ('runtime', 'driver')
),
api_parts as (
    select run, 'launch' as part, count(*) filter (is_launch) as calls, coalesce(sum(dur_ns) filter (is_launch), 0) as dur_ns
    from launches
    group by run
    union all
    select run, coalesce(name, '?'), count(*), sum(dur_ns) from launches where $by_call group by run, name
),
api_sums as (
    select run, sum(dur_ns) as api_sum_ns from launches group by run
),
marked as (
    select run, source, rank, pid, tid, name, scope, start_ns, end_ns from annotations semi join selected using (run)
),
step_counts as (
    select run, count(*) as recorded_steps from steps_of('marked', $step_name) group by run
),
carried as (
    select run, collective as part, sum(size_bytes) as size_bytes
    from collectives
    semi join selected using (run)
    where origin = 'kernel' and size_bytes is not null
    group by run, collective
),
counted as (
    select *, true as is_gpu, null as api_sum_ns from gpu_parts
    union all by name
    select a.*, s.api_sum_ns, false as is_gpu
    from api_parts as a
    join api_sums as s on a.run = s.run
)
select
    c.run, c.sweep, c.model,
    c.batch_size::bigint as batch_size,
    c.layout, c.variant,
    c.repeat::bigint as repeat,
    n.part as share,
    n.calls,
    as_bigint(n.dur_ns) as dur_ns,
    n.gpu_activity_ns, n.kernel_sum_ns, n.kernel_busy_ns, n.window_ns,
    as_bigint(n.api_sum_ns) as api_sum_ns,
    n.dur_ns / nullif(n.gpu_activity_ns, 0) as of_gpu_activity_ratio,
    n.dur_ns / nullif(n.kernel_sum_ns, 0) as of_kernel_sum_ratio,
    n.busy_ns,
    n.busy_ns / nullif(n.kernel_busy_ns, 0) as of_kernel_busy_ratio,
    n.busy_ns / nullif(n.window_ns, 0) as of_window_ratio,
    n.dur_ns / nullif(n.api_sum_ns, 0) as of_api_sum_ratio,
    s.recorded_steps,
    as_bigint(round(n.dur_ns / s.recorded_steps)) as step_ns,
    n.calls / s.recorded_steps as calls_per_step,
    case when n.is_gpu then as_bigint(round(m.size_bytes / s.recorded_steps)) end as step_bytes,
    c.parameter_bytes
from counted as n
join selected as c on n.run = c.run
left join step_counts as s on n.run = s.run
left join carried as m on n.run = m.run and n.part = m.part
where matches(n.part, $share)
order by c.sweep, c.model, c.variant, c.kind, c.processors, c.parallelism, c.batch_size, c.run, n.is_gpu desc, n.part
