-- How long work waits for its launch on each stream, as launch_latency defines it: the rows of its answer.
-- Of a wanted rank, or of all; in a scope, of its rows.
-- /// of one query
-- /// where device = null
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
