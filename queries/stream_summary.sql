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
with activity as not materialized (  -- each use reads only its own kinds and columns
    select
        run, source, rank, pid, device, stream, kind, name, start_ns, end_ns, dur_ns, correlation,
        {'context': context, 'stream': stream} as part
    from gpu_activity
    where matches(run, $run) and matches(rank, $rank) and matches(device, $device)
),
executions as not materialized (
    select run, source, rank, pid, device, stream, name, start_ns, end_ns, dur_ns, correlation, part
    from activity
    where kind = 'kernel'
),
sums as (
    select
        run, rank, device, part,
        count(*) filter (kind = 'kernel') as kernels,
        count(*) filter (kind = 'memcpy') as copies,
        count(*) filter (kind = 'memset') as memsets,
        count(*) filter (kind = 'graph') as graphs,
        sum(dur_ns) filter (has_valid_interval(start_ns, end_ns)) as dur_ns,
        sum(dur_ns) filter (kind = 'kernel' and has_valid_interval(start_ns, end_ns)) as kernel_dur_ns,
        sum(dur_ns) filter (kind in ('memcpy', 'memset') and has_valid_interval(start_ns, end_ns)) as copy_dur_ns,
        sum(dur_ns) filter (kind = 'graph' and has_valid_interval(start_ns, end_ns)) as graph_dur_ns
    from activity
    group by run, rank, device, part
),
communication as (
    select run, rank, device, part, sum(dur_ns) filter (has_valid_interval(start_ns, end_ns)) as comm_dur_ns
    from with_class('executions')
    where class = 'communication'
    group by run, rank, device, part
),
others as materialized (
    select run, source, rank, device, {'context': context, 'stream': stream} as part, start_ns, end_ns
    from out_of_scope_activity
    where matches(run, $run) and matches(rank, $rank) and matches(device, $device)
),
lone as (
    from scope_solo_time('activity', 'others')
),
device_sums as (
    select run, rank, device, max(any_ns) as busy_ns, max(any_ns) - sum(alone_ns) as shared_ns
    from lone
    group by run, rank, device
)
select
    s.run, s.rank, s.device,
    s.part.context as context,
    s.part.stream as stream,
    s.kernels, s.copies, s.memsets, s.graphs,
    as_bigint(coalesce(s.dur_ns, 0)) as dur_ns,
    as_bigint(coalesce(s.kernel_dur_ns, 0)) as kernel_dur_ns,
    as_bigint(coalesce(c.comm_dur_ns, 0)) as comm_dur_ns,
    as_bigint(coalesce(s.copy_dur_ns, 0)) as copy_dur_ns,
    as_bigint(coalesce(s.graph_dur_ns, 0)) as graph_dur_ns,
    zero_if_missing(a.run, a.busy_ns) as busy_ns,
    zero_if_missing(a.run, a.alone_ns) as alone_ns,
    zero_if_missing(d.run, d.busy_ns) as device_busy_ns,
    zero_if_missing(d.run, as_bigint(d.shared_ns)) as shared_ns,
    zero_if_missing(w.run, w.window_ns) as window_ns,
    zero_if_missing(a.run, a.busy_ns) / nullif(w.window_ns, 0) as of_window_ratio,
    zero_if_missing(a.run, a.busy_ns) / nullif(d.busy_ns, 0) as of_device_busy_ratio
from sums as s
left join communication as c
    on s.run = c.run and s.rank = c.rank and s.device is not distinct from c.device and s.part is not distinct from c.part
left join lone as a
    on s.run = a.run and s.rank = a.rank and s.device is not distinct from a.device and s.part is not distinct from a.part
left join device_sums as d on s.run = d.run and s.rank = d.rank and s.device is not distinct from d.device
left join scope_windows('activity') as w on s.run = w.run and s.rank = w.rank and s.device is not distinct from w.device
order by s.run, s.rank, s.device, context, stream
