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
select
    run, rank, device, kernels, busy_ns, concurrent_ns, concurrency_ratio, window_ns, of_window_ratio, max_concurrent
from concurrent_times
where matches(run, $run) and matches(rank, $rank) and matches(device, $device)
order by run, rank, device
