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
with work as not materialized (
    select
        run, source, rank, pid, device, start_ns, correlation, in_scope,
        {'pid': pid, 'context': context, 'stream': stream} as part
    from unscoped_activity  -- a launch and its first kernel are those of the recording
    where
        kind in ('kernel', 'graph') and has_valid_interval(start_ns, end_ns)
        and matches(run, $run) and matches(rank, $rank)
),
calls as not materialized (
    select run, source, pid, tid, correlation, start_ns, end_ns
    from unscoped_api_calls
    where api in ('runtime', 'driver') and matches(run, $run) and matches(rank, $rank)
),
keyed as not materialized (
    select *, hash(run, source, rank, pid, correlation) as key
    from work
    where correlation is not null
),
repeated as materialized (  -- graph launches, and the few keys that collide: only these are grouped
    select key from keyed group by key having count(*) > 1
),
firsts as (
    select k.* exclude (key)
    from keyed as k
    anti join repeated as r on k.key = r.key
    union all by name
    select run, source, rank, pid, correlation, unnest(kernel)
    from (
        select
            k.run, k.source, k.rank, k.pid, k.correlation,
            min({'start_ns': k.start_ns, 'device': k.device, 'part': k.part, 'in_scope': k.in_scope}) as kernel
        from keyed as k
        join hint_small('repeated') as r on k.key = r.key
        group by k.run, k.source, k.rank, k.pid, k.correlation
    )
),
chosen as (
    select run, source, rank, pid, correlation, start_ns, device, part from firsts where in_scope and matches(device, $device)
),
apart as materialized (
    select run, source, pid from processes_apart($run, $rank)
),
launched as (
    select
        run, source, rank, device, part,
        start_ns as kernel_start_ns,
        call_start_ns, call_end_ns
    from with_calls('chosen', 'calls')
    union all
    select run, source, rank, device, part, start_ns, null, null
    from work
    where correlation is null and in_scope and matches(device, $device)
),
launches as (
    select
        l.run, l.source, l.rank, l.device, l.part,
        l.call_start_ns is not null as has_call,
        has_call and a.run is not null as is_apart,
        case when not is_apart then l.call_start_ns end as start_ns,
        l.kernel_start_ns as end_ns,
        l.call_end_ns - l.call_start_ns as api_ns,
        case when not is_apart then try(l.kernel_start_ns - l.call_end_ns) end as queue_ns,
        case when not is_apart then try(l.kernel_start_ns - l.call_start_ns) end as latency_ns
    from launched as l
    left join hint_small('apart') as a
        on l.run = a.run and l.source = a.source and l.part.pid is not distinct from a.pid
),
sums as (
    select
        run, rank, device, part,
        count(*) filter (is_apart or latency_ns is not null) as launches,
        count(*) filter (not has_call) as unmatched,
        count(*) filter (is_apart) as apart,
        count(*) filter (latency_ns < 0) as negative,
        count(*) filter (queue_ns < 0) as negative_queue,
        avg(api_ns) as mean_api_ns,
        avg(queue_ns) filter (queue_ns >= 0) as mean_queue_ns,
        median(queue_ns) filter (queue_ns >= 0) as median_queue_ns,
        max(queue_ns) filter (queue_ns >= 0) as max_queue_ns,
        avg(latency_ns) filter (latency_ns >= 0) as mean_latency_ns,
        median(latency_ns) filter (latency_ns >= 0) as median_latency_ns,
        max(latency_ns) filter (latency_ns >= 0) as max_latency_ns,
        sum(latency_ns) filter (latency_ns >= 0) as waiting_ns
    from launches
    group by run, rank, device, part
),
source_spans as (
    select run, source, rank, device, part, max(end_ns) - min(start_ns) as span_ns
    from intervals('launches')
    group by run, source, rank, device, part
),
spans as (
    select run, rank, device, part, sum(span_ns) as span_ns
    from source_spans
    group by run, rank, device, part
)
select
    s.run, s.rank, s.device,
    s.part.pid as pid,
    s.part.context as context,
    s.part.stream as stream,
    s.launches, s.unmatched, s.negative, s.negative_queue,
    as_bigint(round(s.mean_api_ns)) as mean_api_ns,
    as_bigint(round(s.mean_queue_ns)) as mean_queue_ns,
    as_bigint(round(s.median_queue_ns)) as median_queue_ns,
    s.max_queue_ns,
    as_bigint(round(s.mean_latency_ns)) as mean_latency_ns,
    as_bigint(round(s.median_latency_ns)) as median_latency_ns,
    s.max_latency_ns,
    b.max_concurrent::bigint as max_queue_depth,
    s.waiting_ns / nullif(p.span_ns, 0) as mean_queue_depth,
    as_bigint(s.waiting_ns) as waiting_ns,
    as_bigint(p.span_ns) as span_ns,
    as_bigint(p.span_ns - b.busy_ns) as empty_ns,
    (p.span_ns - b.busy_ns) / nullif(p.span_ns, 0) as empty_ratio,
    s.apart
from sums as s
left join concurrency('launches') as b
    on s.run = b.run and s.rank = b.rank and s.device is not distinct from b.device and s.part is not distinct from b.part
left join spans as p
    on s.run = p.run and s.rank = p.rank and s.device is not distinct from p.device and s.part is not distinct from p.part
order by s.run, s.rank, s.device, pid, context, stream
