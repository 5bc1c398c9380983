-- Why a device idles: the CPU side was late, or work that was launched long before had to wait, or it was only the overhead
-- between one piece of work and the next.
-- A row is one run, rank and device with GPU activity. Each gap between two stretches of activity has the cause that the
-- next kernel, copy, memset or graph decides: `host` where the call that launched it ended after the gap had begun, so the
-- device had nothing to do; otherwise `dependency` where the gap is longer than min_gap_ns (it waited for another stream,
-- another device or a copy), else `overhead`. `unknown` are gaps whose next work has no launch call in the source, or
-- starts over a millisecond before it, and all of a process whose synchronizations return over a millisecond before the work
-- ends that they wait for: its clocks of CPU and GPU do not agree. They may have any cause. The four parts add up to
-- `idle_ns`, which is that of gpu_breakdown. With a scope only the gaps that its rows end count. The CPU side is the process that
-- launched; where it waited itself (a lock, the data loader, another rank) is not in it.
-- /// query
-- title = "Idle time causes"
-- needs = ["kernels", "memcpys", "memsets", "graph_launches"]
-- show = ["run", "rank", "device", "window_ns", "host_ns", "dependency_ns", "overhead_ns", "host_op", "unknown_ns"]
-- chart = { kind = "stacked", x = "rank", y = ["host_ns", "dependency_ns", "overhead_ns", "unknown_ns"], by = "run" }
-- [params]
-- common = ["run", "rank", "device", "step_name"]
-- min_gap_ns = { default = 30000, about = "a longer gap before work that was launched in time is a dependency, not overhead" }
-- [columns]
-- common = ["run", "rank", "device", "window_ns", "idle_ns"]
-- idle_ratio = "idle_ns / window_ns."
-- host_ns = "Gaps that ended with work launched too late."
-- dependency_ns = "Longer gaps that ended with work launched in time."
-- overhead_ns = "Gaps of at most min_gap_ns that ended with work launched in time."
-- unknown_ns = "Gaps that ended with work whose launch is not recorded, or begins over a millisecond after the work: the clocks of CPU and GPU do not agree."
-- host_ratio = "host_ns / idle_ns."
-- dependency_ratio = "dependency_ns / idle_ns."
-- overhead_ratio = "overhead_ns / idle_ns."
-- unknown_ratio = "unknown_ns / idle_ns."
-- gaps = "Gaps."
-- host_gaps = "Those of host_ns."
-- dependency_gaps = "Those of dependency_ns."
-- overhead_gaps = "Those of overhead_ns."
-- unknown_gaps = "Those of unknown_ns."
-- longest_gap_ns = "The longest gap."
-- host_step = "The step with most of host_ns: that which launched what ended the gaps; NULL where no range marks steps."
-- dependency_step = "The step with most of dependency_ns."
-- overhead_step = "The step with most of overhead_ns."
-- host_op = "The outermost op whose launches ended over half of host_ns; NULL where none did."
-- host_op_ns = "Its part of host_ns."
-- [report]
-- section = "launches"
-- order = 1
-- row = "GPU[s]"
-- ok_text = "No cause leaves a device idle for more than 10 % of its window."
-- unknown = "Why the devices idle is not known: nothing that ran on one took any time that is known."
-- [[report.findings]]
-- when = "host_ns > 0.1 * nullif(window_ns, 0)"
-- by = "host_ns"
-- cost = { ns = "host_ns", adds = true, topics = ["host", "data"], detail = 1 }
-- what_if = { change = "scale", class = "cpu_side", factor = 0, without = "With a CPU side that takes no time" }
-- text = "{where} waits for the host for {host_ns of window_ns} of its window[, worst in step {host_step}][; over half of that, {host_op_ns}, passes before what {host_op} launches]."
-- every = "{where} wait for the host for {host_ns of window_ns} of their windows[, worst in step {host_step} of rank {rank}][; on rank {rank} over half of that, {host_op_ns}, passes before what {host_op} launches]."
-- step = "host_step"
-- advice = "Launch fewer, larger kernels: fuse or compile, use CUDA graphs, take synchronizations and the data loader out of the way."
-- [[report.findings]]
-- when = "dependency_ns > 0.1 * nullif(window_ns, 0)"
-- by = "dependency_ns"
-- cost = { ns = "dependency_ns", adds = true, topics = ["dependency"], detail = 1 }
-- next = "stream_summary"
-- text = "{where} waits for {dependency_ns of window_ns} of its window with work launched long before[, worst in step {dependency_step}]: other streams, other devices, or a synchronization hold it up."
-- every = "{where} wait for {dependency_ns of window_ns} of their windows with work launched long before[, worst in step {dependency_step} of rank {rank}]: other streams, other devices, or a synchronization hold it up."
-- step = "dependency_step"
-- advice = "See communication and copies."
-- [[report.findings]]
-- when = "overhead_ns > 0.1 * nullif(window_ns, 0)"
-- by = "overhead_ns"
-- cost = { ns = "overhead_ns", adds = true, topics = ["launches"], detail = 1 }
-- what_if = "no_short_gaps"
-- next = "kernel_summary"
-- text = "{where} spends {overhead_ns of window_ns} of its window in short gaps between one kernel and the next[, worst in step {overhead_step}]."
-- every = "{where} spend {overhead_ns of window_ns} of their windows in short gaps between one kernel and the next[, worst in step {overhead_step} of rank {rank}]."
-- step = "overhead_step"
-- advice = "Larger kernels make fewer of these gaps, and CUDA graphs shorten those between kernels that are launched one by one."
-- [[report.findings]]
-- when = "unknown_ns > 0.1 * nullif(window_ns, 0)"
-- by = "unknown_ns"
-- cost = { ns = "unknown_ns", adds = true, topics = ["data", "host", "launches", "dependency"], detail = 1 }
-- text = "{where} idles for {unknown_ns of window_ns} of its window before work whose launch is not known, so that the cause is not known either."
-- every = "{where} idle for {unknown_ns of window_ns} of their windows before work whose launch is not known, so that the cause is not known either."
-- advice = "`doctor` finds which: launches that were not recorded (record the calls of the CUDA runtime and driver beside the kernels: `activities=[CPU, CUDA]` of the PyTorch profiler, `--trace=cuda` of nsys), or kernels that begin before their launch or end after the synchronization with them, because the clocks of CPU and GPU do not agree."
-- ///
select
    run, rank, device,
    window_ns, idle_ns, idle_ratio,
    host_ns, dependency_ns, overhead_ns, unknown_ns,
    host_ratio, dependency_ratio, overhead_ratio, unknown_ratio,
    gaps, host_gaps, dependency_gaps, overhead_gaps, unknown_gaps, longest_gap_ns,
    host_step, dependency_step, overhead_step, host_op, host_op_ns
from idle_times
where matches(run, $run) and matches(rank, $rank) and matches(device, $device)
order by run, rank, device
