-- How long work waits between its launch on the host and its start on the device, and how many launches wait at once.
-- A row is one run, rank, device, process, context and stream that ran kernels. A launch is a runtime or driver call and
-- the first kernel that it started (of a CUDA graph the first of its kernels, or the graph recorded as a whole): `api_ns`
-- the call, `queue_ns` from its end to the kernel's start, `latency_ns` from its beginning. A launch whose kernel starts
-- before the call returns has a queue_ns below 0, one whose kernel starts before the call begins shows clocks that do
-- not agree: both are counted, and left out of what the column sums up. At any time the queue's depth is the launches
-- begun less the kernels begun: near 0 the device waits for the host, large it is the host that is ahead. A launch is in a
-- scope if its first kernel is, wherever the call is. Of a process whose
-- synchronizations return before their work ends, the clocks of CPU and GPU are apart: its latencies and depths are not known.
-- /// query
-- title = "Launch latency and queue depth"
-- needs = ["kernels", "graph_launches"]
-- show = ["run", "rank", "device", "stream", "launches", "mean_latency_ns", "mean_queue_depth", "empty_ratio"]
-- chart = { kind = "bars", x = "stream", y = ["mean_latency_ns", "mean_queue_depth"], by = "run" }
-- hints = [
--     { when = "exists (from processes_apart($run, $rank))", text = "the clocks of CPU and GPU are apart, and times from one to the other mean little; tracelab doctor --check sync_before_end prints by how much" },
-- ]
-- [params]
-- common = ["run", "rank", "device"]
-- [columns]
-- common = ["run", "rank", "device"]
-- pid = "The process that launched."
-- context = "common"
-- stream = "The stream on which the launch's first kernel ran."
-- launches = "Launches whose call and first kernel are known."
-- unmatched = "Kernels and whole graphs without a launch call in the source."
-- negative = "Launches with a latency_ns below 0."
-- negative_queue = "Launches with a queue_ns below 0."
-- mean_api_ns = "Mean duration of the calls."
-- mean_queue_ns = "Mean queue_ns of those that are not below 0."
-- median_queue_ns = "Median queue_ns of those that are not below 0."
-- max_queue_ns = "The longest queue_ns, of those that are not below 0."
-- mean_latency_ns = "Mean latency_ns of those that are not below 0."
-- median_latency_ns = "Median latency_ns of those that are not below 0."
-- max_latency_ns = "The longest latency_ns, of those that are not below 0."
-- max_queue_depth = "Most launches that waited at once."
-- mean_queue_depth = "waiting_ns / span_ns: the depth's mean over time."
-- waiting_ns = "Latencies that are not below 0, added up; as much as the depth adds up to over time."
-- span_ns = "First launch to last start of a kernel, summed over the sources."
-- empty_ns = "The part of span_ns in which no launch waited."
-- empty_ratio = "empty_ns / span_ns."
-- apart = "Launches of a process whose clocks of CPU and GPU are apart; no column of latencies and depths has them."
-- [report]
-- section = "launches"
-- order = 2
-- ok_text = "Every stream has a launch waiting for half of its span or more."
-- unknown = "How far the host is ahead of the device is not known: of no stream a launch was recorded together with its kernel. Record the calls of the CUDA runtime and driver beside the kernels."
-- [[report.findings]]
-- when = "empty_ns > 0.5 * nullif(span_ns, 0)"
-- by = "empty_ns"
-- text = "[{where}: ]stream {stream} has no launch waiting for {empty_ns of span_ns} of its span[; the queue holds {mean_queue_depth} launches on average]."
-- advice = "The host is only just ahead of the device: launch fewer, larger kernels (fuse, compile, CUDA graphs), and synchronize less often."
-- ///
select
    run, rank, device, pid, context, stream, launches, unmatched, negative, negative_queue,
    mean_api_ns, mean_queue_ns, median_queue_ns, max_queue_ns, mean_latency_ns, median_latency_ns, max_latency_ns,
    max_queue_depth, mean_queue_depth, waiting_ns, span_ns, empty_ns, empty_ratio, apart
from launch_times
where matches(run, $run) and matches(rank, $rank) and matches(device, $device)
order by run, rank, device, pid, context, stream
