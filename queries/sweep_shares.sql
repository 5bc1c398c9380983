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
activity as not materialized (
    select run, source, rank, device, start_ns, end_ns, dur_ns from gpu_activity semi join selected using (run)
),
executions as not materialized (
    select run, source, rank, pid, device, stream, name, start_ns, end_ns, dur_ns, correlation
    from kernels
    semi join selected using (run)
),
kinds as not materialized (
    select
        run, source, rank, device, start_ns, end_ns, dur_ns,
        case
            when collective in ('broadcast', 'all_reduce') then collective
            when class = 'winograd' then 'winograd'
            when class in ('implicit_gemm', 'convolution') then 'other_convolution'
            when class = 'pooling_backward' and regexp_matches(name, '(?i)max_?pool') then 'max_pool_backward'
            when class = 'pooling_backward' then 'other_pool_backward'
        end as part
    from with_class('executions')
),
parts as materialized (  -- swept and counted: classified once
    select * from kinds where part is not null
),
gpu_parts as (
    select run, part, count(*) as calls, coalesce(sum(dur_ns) filter (has_valid_interval(start_ns, end_ns)), 0) as dur_ns
    from parts
    group by run, part
),
gpu_part_busy as (
    select run, part, sum(busy_ns) as busy_ns from busy('parts') group by run, part
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
kernel_busy as (
    select run, sum(busy_ns) as kernel_busy_ns from busy('executions') group by run
),
gpu_windows as (
    select run, sum(window_ns) as window_ns from windows('activity') group by run
),
gpu_sums as (
    select run, coalesce(sum(dur_ns) filter (has_valid_interval(start_ns, end_ns)), 0) as gpu_activity_ns from activity group by run
),
kernel_sums as (
    select run, coalesce(sum(dur_ns) filter (has_valid_interval(start_ns, end_ns)), 0) as kernel_sum_ns from executions group by run
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
wanted as (  -- a device that has no such kernel has a share of 0
    select g.run, p.part, true as is_gpu
    from gpu_sums as g
    cross join (
        values ('broadcast'), ('all_reduce'), ('winograd'), ('other_convolution'), ('max_pool_backward'), ('other_pool_backward')
    ) as p(part)
    union all
    select run, part, false from api_parts
),
counted as (
    select
        w.run, w.part, w.is_gpu,
        case when w.is_gpu then coalesce(g.calls, 0) else a.calls end as calls,
        case when w.is_gpu then coalesce(g.dur_ns, 0) else a.dur_ns end as dur_ns,
        case when w.is_gpu then coalesce(b.busy_ns, 0) end as busy_ns
    from wanted as w
    left join gpu_parts as g on w.run = g.run and w.part = g.part and w.is_gpu
    left join gpu_part_busy as b on w.run = b.run and w.part = b.part and w.is_gpu
    left join api_parts as a on w.run = a.run and w.part = a.part and not w.is_gpu
)
select
    c.run, c.sweep, c.model,
    c.batch_size::bigint as batch_size,
    c.layout, c.variant,
    c.repeat::bigint as repeat,
    n.part as share,
    n.calls,
    as_bigint(n.dur_ns) as dur_ns,
    case when n.is_gpu then as_bigint(g.gpu_activity_ns) end as gpu_activity_ns,
    case when n.is_gpu then as_bigint(coalesce(k.kernel_sum_ns, 0)) end as kernel_sum_ns,
    case when n.is_gpu then as_bigint(coalesce(b.kernel_busy_ns, 0)) end as kernel_busy_ns,
    case when n.is_gpu then as_bigint(w.window_ns) end as window_ns,
    case when not n.is_gpu then as_bigint(a.api_sum_ns) end as api_sum_ns,
    case when n.is_gpu then n.dur_ns / nullif(g.gpu_activity_ns, 0) end as of_gpu_activity_ratio,
    case when n.is_gpu then n.dur_ns / nullif(k.kernel_sum_ns, 0) end as of_kernel_sum_ratio,
    as_bigint(n.busy_ns) as busy_ns,
    n.busy_ns / nullif(b.kernel_busy_ns, 0) as of_kernel_busy_ratio,
    n.busy_ns / nullif(w.window_ns, 0) as of_window_ratio,
    case when not n.is_gpu then n.dur_ns / nullif(a.api_sum_ns, 0) end as of_api_sum_ratio,
    s.recorded_steps,
    as_bigint(round(n.dur_ns / s.recorded_steps)) as step_ns,
    n.calls / s.recorded_steps as calls_per_step,
    case when n.is_gpu then as_bigint(round(m.size_bytes / s.recorded_steps)) end as step_bytes,
    c.parameter_bytes
from counted as n
join selected as c on n.run = c.run
left join gpu_sums as g on n.run = g.run
left join kernel_sums as k on n.run = k.run
left join kernel_busy as b on n.run = b.run
left join gpu_windows as w on n.run = w.run
left join api_sums as a on n.run = a.run
left join step_counts as s on n.run = s.run
left join carried as m on n.run = m.run and n.part = m.part
where matches(n.part, $share)
order by c.sweep, c.model, c.variant, c.kind, c.processors, c.parallelism, c.batch_size, c.run, n.is_gpu desc, n.part
