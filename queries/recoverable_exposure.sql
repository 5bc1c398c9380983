-- How much earlier a device would be done without its exposed communication, or without its exposed copies.
-- A row is one run, rank and device. Exposed time of communication and copies is that of gpu_breakdown. It can be recovered
-- only if the device then computes earlier: not where later work waits for its launch, because the CPU side issues it no
-- sooner. So time before a late launch counts only up to the last return of a call that waited for the device: of a
-- synchronization, or of a copy that blocks. A launch is late that ended after the device had finished all computing before
-- it. Where launches are not recorded, or clocks of CPU and GPU do not agree, all exposed time counts. It is a bound:
-- what_if replays the run, with other streams and ranks.
-- /// query
-- title = "Recoverable exposed time"
-- needs = ["kernels", "memcpys", "memsets", "graph_launches"]
-- chart = { kind = "bars", x = "rank", y = ["exposed_comm_ns", "recoverable_comm_ns", "exposed_memory_ns", "recoverable_memory_ns"], by = "run" }
-- [params]
-- common = ["run", "rank", "device"]
-- [columns]
-- common = ["run", "rank", "device", "window_ns", "exposed_comm_ns"]
-- recoverable_comm_ns = "The part of exposed_comm_ns after which no work waits for its launch before the CPU side waits for the device."
-- exposed_memory_ns = "common"
-- recoverable_memory_ns = "The same part of exposed_memory_ns."
-- [report]
-- section = "launches"
-- order = 2
-- row = "GPU[s]"
-- show_if = "exposed_comm_ns > 0 or exposed_memory_ns > 0"
-- without = "no communication and no copy is exposed"
-- ok_text = "Most exposed communication and exposed copies delay the devices."
-- unknown = "Whether exposed communication and copies delay the devices is not known: nothing that ran on one took any time that is known."
-- [[report.findings]]
-- when = "exposed_comm_ns + exposed_memory_ns > 0.01 * nullif(window_ns, 0) and recoverable_comm_ns + recoverable_memory_ns < 0.5 * (exposed_comm_ns + exposed_memory_ns)"
-- by = "exposed_comm_ns + exposed_memory_ns - recoverable_comm_ns - recoverable_memory_ns"
-- text = "[{where}: ]of exposed communication {recoverable_comm_ns of exposed_comm_ns} can be recovered, of exposed copies {recoverable_memory_ns of exposed_memory_ns}: after the rest the device waits for the CPU side all the same."
-- advice = "Begin with the CPU side (idle_causes): until it launches earlier, shorter communication and copies gain no more than that."
-- ///
select run, rank, device, window_ns, exposed_comm_ns, recoverable_comm_ns, exposed_memory_ns, recoverable_memory_ns
from recoverable_times
where matches(run, $run) and matches(rank, $rank) and matches(device, $device)
order by run, rank, device
