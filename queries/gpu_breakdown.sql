-- Time of each device: compute, exposed communication, exposed copies, idle.
-- A row is one run, rank and device with GPU activity. Each nanosecond of the window counts once, for the first that
-- applies: compute, then communication, then memory, then idle; the parts add up to `window_ns`. With a scope they are of its
-- rows, and the time in which others run, or hide communication and memory of the scope, is `out_of_scope_ns`. A gap is that of
-- the row which ends it: the window of a scope begins with the gap before its first row. Kernels that no rule of the classifier
-- knows count as compute, and so do CUDA graphs recorded as a whole, with any nodes inside them.
-- /// query
-- title = "GPU time breakdown"
-- needs = ["kernels", "memcpys", "memsets", "graph_launches"]
-- on_cpu = "cpu_breakdown"
-- show = ["run", "rank", "device", "window_ns", "compute_ns", "exposed_comm_ns", "exposed_memory_ns", "idle_ns", "out_of_scope_ns"]
-- chart = { kind = "stacked", x = "rank", y = ["compute_ns", "exposed_comm_ns", "exposed_memory_ns", "out_of_scope_ns", "idle_ns"], by = "run" }
-- [params]
-- common = ["run", "rank", "device"]
-- [columns]
-- common = ["run", "rank", "device", "window_ns", "compute_ns", "exposed_comm_ns", "exposed_memory_ns", "idle_ns"]
-- comm_ns = "Time in which a communication kernel ran."
-- overlapped_comm_ns = "Time in which communication and compute, in the scope or not, ran together; comm_ns = exposed + overlapped."
-- graph_ns = "Time in which a CUDA graph recorded as a whole ran (part of compute_ns; its kernels are not known)."
-- kernel_sum_ns = "Durations of all kernels, added up."
-- unclassified_ns = "Durations of the kernels whose name no rule matches, added up."
-- unclassified_ratio = "common"
-- out_of_scope_ns = "Time in which rows outside of the scope ran, such as those of other steps: alone, or compute while only communication or memory of the scope ran, or communication while only memory did; and the gaps before them. 0 without a scope."
-- [report]
-- section = "time"
-- order = 1
-- row = "GPU[s]"
-- ok_text = "No device idles for more than 20 % of its window, or has exposed communication or exposed copies for more than 10 % of it."
-- unknown = "Where the time goes is not known: nothing that ran on a device took any time that is known."
-- [[report.findings]]
-- when = "idle_ns > 0.2 * nullif(window_ns, 0)"
-- by = "idle_ns"
-- cost = { ns = "idle_ns", adds = true, topics = ["data", "host", "launches", "dependency"] }
-- next = "idle_causes"
-- text = "{where} is idle for {idle_ns of window_ns} of its window."
-- every = "{where} are idle for {idle_ns of window_ns} of their windows."
-- advice = "See the causes of idle time below: a late host, waiting for other work, or overhead."
-- [[report.findings]]
-- when = "exposed_comm_ns > 0.1 * nullif(window_ns, 0)"
-- by = "exposed_comm_ns"
-- cost = { ns = "exposed_comm_ns", adds = true, topics = ["waiting", "transfer", "receiving"] }
-- what_if = { change = "scale", class = "communication", factor = 0, without = "With communication that takes no time" }
-- next = "nccl_share"
-- text = "[{where}: ]exposed communication takes {exposed_comm_ns of window_ns} of the window."
-- every = "{where}: exposed communication takes {exposed_comm_ns of window_ns} of the windows."
-- advice = "Overlap communication with the backward pass (larger buckets, a stream of its own), or look for the straggler."
-- [[report.findings]]
-- when = "exposed_memory_ns > 0.1 * nullif(window_ns, 0)"
-- by = "exposed_memory_ns"
-- cost = { ns = "exposed_memory_ns", adds = true, topics = ["copies"], detail = 1 }
-- what_if = { change = "no_copies", class = "memory", without = "With copies and memsets that take no time" }
-- next = "memcpy_throughput"
-- text = "[{where}: ]exposed copies take {exposed_memory_ns of window_ns} of the window."
-- every = "{where}: exposed copies take {exposed_memory_ns of window_ns} of the windows."
-- advice = "See which copies they are (memcpy_throughput): pin host memory and copy the next batch while this one computes; within the device, write results in place and set fewer buffers to 0."
-- ///
select
    run, rank, device,
    window_ns, compute_ns, exposed_comm_ns, exposed_memory_ns, idle_ns, comm_ns, overlapped_comm_ns, graph_ns,
    kernel_sum_ns, unclassified_ns,
    unclassified_ns / nullif(kernel_sum_ns, 0) as unclassified_ratio,
    out_of_scope_ns
from device_times
where matches(run, $run) and matches(rank, $rank) and matches(device, $device)
order by run, rank, device
