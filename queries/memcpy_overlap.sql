-- How much of the time in which a device copies, it does something else as well: another copy, or a kernel.
-- A row is one run, rank and device that copied. Copies that touch (one ends in the nanosecond the next begins) do not
-- overlap. `compute_overlap_ratio` is nvvp's: of what could overlap at best, the smaller of the two busy times; `hidden` is
-- the share of copying that costs nothing, for kernels ran meanwhile. Communication kernels are kernels here. Kernels and
-- copies inside a CUDA graph that was recorded as a whole are not known; `graph_ns` is the time that this hides.
-- /// query
-- title = "Memory copy overlap"
-- needs = ["memcpys"]
-- show = [
--     "run", "rank", "device", "copies", "copy_busy_ns",
--     "copy_overlap_ratio", "compute_overlap_ratio", "hidden_ratio",
-- ]
-- chart = { kind = "bars", x = "rank", y = ["copy_overlap_ratio", "compute_overlap_ratio", "hidden_ratio"], by = "run" }
-- [params]
-- common = ["run", "rank", "device"]
-- [columns]
-- common = ["run", "rank", "device", "copies"]
-- copy_busy_ns = "Time in which at least one copy ran."
-- copy_concurrent_ns = "Time in which at least two copies ran."
-- copy_overlap_ratio = "copy_concurrent_ns / copy_busy_ns."
-- kernel_busy_ns = "Time in which at least one kernel ran."
-- overlap_ns = "Time in which a copy and a kernel ran."
-- smaller_busy_ns = "The smaller one of copy_busy_ns and kernel_busy_ns."
-- compute_overlap_ratio = "overlap_ns / smaller_busy_ns."
-- hidden_ratio = "overlap_ns / copy_busy_ns."
-- graph_ns = "Time in which a CUDA graph recorded as a whole ran."
-- window_ns = "common"
-- [report]
-- section = "copies"
-- order = 2
-- ok_text = "Kernels hide at least half of the copying on every device."
-- unknown = "Whether kernels hide the copying is not known: no copy has a duration above 0."
-- [[report.findings]]
-- when = "hidden_ratio < 0.5"
-- by = "copy_busy_ns - overlap_ns"
-- cost = { ns = "copy_busy_ns - overlap_ns", adds = true, topics = ["copies"], leads = false }
-- text = "[{where}: ]kernels run beside {overlap_ns of copy_busy_ns} of the copying."
-- advice = "Use pinned memory, `non_blocking=True` and a stream of its own to copy the next batch meanwhile."
-- ///
select
    run, rank, device, copies, copy_busy_ns, copy_concurrent_ns, copy_overlap_ratio, kernel_busy_ns,
    overlap_ns, smaller_busy_ns, compute_overlap_ratio, hidden_ratio, graph_ns, window_ns
from copy_overlaps
where matches(run, $run) and matches(rank, $rank) and matches(device, $device)
order by run, rank, device
