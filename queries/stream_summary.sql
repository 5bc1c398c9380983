-- What each stream of a device does, and how much of it runs while the other streams rest.
-- A row is one run, rank, device, context and stream. Times of kernels, copies, memsets and whole graphs add up; `busy_ns`
-- counts time at which two of them run once. `alone_ns` is the time in which this stream was the only one that ran: over a
-- device's streams these add up to its busy time less `shared_ns`, in which two streams or more ran. A stream whose
-- `alone_ns` is small beside its `busy_ns` costs little time. In a scope the times are of its rows; whether another stream ran
-- beside them is taken from the whole recording.
-- /// query
-- title = "Stream summary"
-- needs = ["kernels", "memcpys", "memsets", "graph_launches"]
-- show = ["run", "rank", "device", "stream", "kernels", "busy_ns", "alone_ns", "of_window_ratio"]
-- chart = { kind = "bars", x = "stream", y = ["busy_ns", "alone_ns"], by = "run" }
-- [params]
-- common = ["run", "rank", "device"]
-- [columns]
-- common = ["run", "rank", "device", "context"]
-- stream = "The stream."
-- kernels = "common"
-- copies = "common"
-- memsets = "Memsets."
-- graphs = "CUDA graphs recorded as a whole."
-- dur_ns = "Durations of all of them, added up."
-- kernel_dur_ns = "Durations of the kernels, added up."
-- comm_dur_ns = "Durations of those kernels that communicate, added up (part of kernel_dur_ns)."
-- copy_dur_ns = "Durations of copies and memsets, added up."
-- graph_dur_ns = "Durations of whole graphs, added up."
-- busy_ns = "common"
-- alone_ns = "The part of busy_ns in which no other stream of the device ran, in the scope or not."
-- device_busy_ns = "Time in which at least one stream of the device ran."
-- shared_ns = "The part of device_busy_ns in which at least two streams ran, one of them in the scope."
-- window_ns = "common"
-- of_window_ratio = "common"
-- of_device_busy_ratio = "busy_ns / device_busy_ns."
-- [report]
-- section = "concurrency"
-- order = 2
-- ok_text = "Streams run beside each other: for 5 % of the busy time or more two of a device run at once."
-- unknown = "How streams share their devices is not known: nothing that ran has a duration above 0."
-- [[report.findings]]
-- when = "alone_ns > 0.95 * nullif(device_busy_ns, 0)"
-- by = "alone_ns"
-- text = "[{where}: ]stream {stream} runs alone for {alone_ns of device_busy_ns} of the time in which the device is busy."
-- advice = "Copies and communication overlap with computing only on streams of their own."
-- [[report.findings]]
-- when = "shared_ns < 0.05 * nullif(device_busy_ns, 0) and alone_ns <= 0.95 * device_busy_ns"
-- by = "device_busy_ns - shared_ns"
-- text = "[{where}: ]two streams run at once for only {shared_ns of device_busy_ns} of the time in which the device is busy: they take turns."
-- advice = "Look for what makes one wait for the other: an event, a synchronization, the default stream, or kernels that each occupy the whole device."
-- ///
select
    run, rank, device, context, stream,
    kernels, copies, memsets, graphs, dur_ns, kernel_dur_ns, comm_dur_ns, copy_dur_ns, graph_dur_ns,
    busy_ns, alone_ns, device_busy_ns, shared_ns, window_ns,
    busy_ns / nullif(window_ns, 0) as of_window_ratio,
    busy_ns / nullif(device_busy_ns, 0) as of_device_busy_ratio
from stream_times
where matches(run, $run) and matches(rank, $rank) and matches(device, $device)
order by run, rank, device, context, stream
