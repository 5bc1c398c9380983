-- How much of the time in which a device computes, it runs two kernels or more at once.
-- A row is one run, rank and device that ran kernels. Kernels of two devices or two ranks are never merged, and kernels
-- that touch (one ends in the nanosecond the next begins) do not overlap. Kernels inside a CUDA graph that was recorded
-- as a whole are not in it: `graph_ns` of gpu_breakdown is the time that this hides. A kernel without start or duration, or
-- with a duration below 0, counts in `kernels` alone.
-- /// query
-- title = "Kernel concurrency"
-- needs = ["kernels"]
-- show = ["run", "rank", "device", "kernels", "busy_ns", "concurrent_ns", "concurrency_ratio", "max_concurrent"]
-- chart = { kind = "bars", x = "rank", y = ["concurrency_ratio", "of_window_ratio"], by = "run" }
-- [params]
-- common = ["run", "rank", "device"]
-- [columns]
-- common = ["run", "rank", "device", "kernels"]
-- busy_ns = "Time in which at least one kernel ran."
-- concurrent_ns = "common"
-- concurrency_ratio = "concurrent_ns / busy_ns."
-- window_ns = "common"
-- of_window_ratio = "concurrent_ns / window_ns."
-- max_concurrent = "Most kernels at once."
-- [report]
-- section = "concurrency"
-- order = 1
-- ok_text = "Every device runs two kernels at once for 10 % of its busy time or more."
-- unknown = "How often two kernels run at once is not known: no kernel has a duration above 0."
-- [[report.findings]]
-- when = "concurrency_ratio < 0.1"
-- by = "busy_ns"
-- text = "{where} runs two kernels or more at once for {concurrent_ns of busy_ns} of its busy time."
-- advice = "That costs nothing where each kernel occupies the whole device; see the shapes of kernels for those that do not."
-- ///
with activity as not materialized (  -- each use reads only its own kinds and columns
    select run, source, rank, device, kind, start_ns, end_ns
    from gpu_activity
    where matches(run, $run) and matches(rank, $rank) and matches(device, $device)
),
executions as (
    select run, source, rank, device, start_ns, end_ns
    from activity
    where kind = 'kernel'
),
counts as (
    select run, rank, device, count(*) as kernels
    from executions
    group by run, rank, device
)
select
    k.run, k.rank, k.device, k.kernels,
    zero_if_missing(b.run, b.busy_ns) as busy_ns,
    zero_if_missing(b.run, b.concurrent_ns) as concurrent_ns,
    b.concurrent_ns / nullif(b.busy_ns, 0) as concurrency_ratio,
    zero_if_missing(w.run, w.window_ns) as window_ns,
    zero_if_missing(b.run, b.concurrent_ns) / nullif(w.window_ns, 0) as of_window_ratio,
    coalesce(b.max_concurrent, 0)::bigint as max_concurrent
from counts as k
left join concurrency('executions') as b on k.run = b.run and k.rank = b.rank and k.device is not distinct from b.device
left join scope_windows('activity') as w on k.run = w.run and k.rank = w.rank and k.device is not distinct from w.device
order by k.run, k.rank, k.device
