-- What CUDA and HIP graphs run, and what launching them costs.
-- A row is one run, rank, device and graph, with all its launches. Where the profiler recorded the nodes, `recorded` is
-- 'nodes' and the kernels, copies and memsets are known; where it recorded each graph as a whole, 'whole', and only the time
-- is known. A source that does not record the graph's id leaves `graph` empty: there, launches with equally many nodes are
-- taken for one graph. A launch without any work in the source (the recording began or ended in it) is 'nothing', without
-- a device. One launch replaces as many launches as it has nodes: compare mean_api_ns with that of launch_latency.
-- /// query
-- title = "CUDA graphs"
-- needs = ["graph_launches", "kernels", "api_calls"]
-- show = ["run", "rank", "device", "graph", "launches", "busy_ns", "mean_span_ns", "of_gpu_activity_ratio"]
-- chart = { kind = "bars", x = "what", y = ["busy_ns", "api_ns"], by = "run" }
-- hints = [
--     { when = "not exists (from gpu_activity where (kind = 'graph' or graph is not null) and matches(run, $run)) and not exists (from api_calls where name like '%GraphLaunch%' and matches(run, $run))", text = "no CUDA graph is launched; capture one (torch.cuda.graph, mode=\"reduce-overhead\" of torch.compile)", empty = true },
-- ]
-- [params]
-- common = ["run", "rank", "device"]
-- [columns]
-- common = ["run", "rank", "device"]
-- graph = "Id of the graph, where the source records it."
-- recorded = "nodes, whole or nothing: what the source has of it."
-- launches = "Launches of the graph that ran on the device."
-- kernels = "Kernel executions of all launches."
-- copies = "Copies of all launches."
-- memsets = "Memsets of all launches."
-- min_nodes = "Fewest kernels, copies and memsets of a launch; of whole graphs the number that the source records."
-- max_nodes = "Most of them."
-- dur_ns = "Durations of nodes or whole graphs, added up."
-- busy_ns = "Time in which at least one node, or the whole graph, ran: of each launch, added up."
-- span_ns = "First start to last end of each launch, added up."
-- mean_span_ns = "span_ns over the launches that have a time, rounded to whole ns."
-- busy_ratio = "busy_ns / span_ns."
-- api_calls = "Launches whose call is in the source."
-- api_ns = "Durations of these calls, added up."
-- mean_api_ns = "api_ns / api_calls, rounded to whole ns."
-- gpu_activity_ns = "common"
-- of_gpu_activity_ratio = "common"
-- what = "The graph in words: its id, else how many nodes it has."
-- [report]
-- section = "launches"
-- order = 3
-- row = "graph[s]"
-- needs = ["graph_launches"]
-- ok_text = "Every graph keeps its device busy for at least half of the time from its first node to its last."
-- unknown = "How busy the graphs keep their devices is not known: no work of theirs was recorded with its time."
-- [[report.findings]]
-- when = "busy_ns < 0.5 * nullif(span_ns, 0)"
-- by = "span_ns - busy_ns"
-- cost = { ns = "span_ns - busy_ns", adds = true, topics = ["launches"], detail = 2 }
-- text = "[{where}: ]{what} has something running for only {busy_ns of span_ns} of the time from its first node to its last, in {launches} launches."
-- every = "{where} have something running for only {busy_ns of span_ns} of the time from their first nodes to their last."
-- advice = "Nodes wait for each other: look at the dependencies that were captured, and capture independent work on streams of its own."
-- ///
with graph_calls as (
    select run, source, rank, pid, correlation, max(end_ns) - min(start_ns) as api_ns
    from api_calls
    where
        name like '%GraphLaunch%' and correlation is not null
        and api in ('runtime', 'driver') and has_valid_interval(start_ns, end_ns)
        and matches(run, $run) and matches(rank, $rank)
    group by run, source, rank, pid, correlation
),
activity as not materialized (
    select run, source, rank, pid, device, kind, start_ns, end_ns, dur_ns, correlation, graph
    from gpu_activity
    where matches(run, $run) and matches(rank, $rank) and matches(device, $device)
),
nodes as (
    select
        a.run, a.source, a.rank, a.device, a.kind, a.start_ns, a.end_ns, a.dur_ns, c.api_ns,
        {
            'source': a.source, 'pid': a.pid, 'correlation': a.correlation, 'graph': a.graph,
            'recorded': case when a.kind = 'graph' then 'whole' else 'nodes' end
        } as part
    from activity as a
    left join graph_calls as c
        on a.run = c.run and a.source = c.source and a.pid is not distinct from c.pid and a.correlation = c.correlation
    where a.kind = 'graph' or a.graph is not null or c.run is not null
),
sizes as (
    select run, source, rank, device, pid, correlation, max(nodes) as nodes
    from graph_launches
    group by run, source, rank, device, pid, correlation
),
launches as (
    select
        run, rank, device, part,
        count(*) filter (kind = 'kernel') as kernels,
        count(*) filter (kind = 'memcpy') as copies,
        count(*) filter (kind = 'memset') as memsets,
        sum(dur_ns) filter (has_valid_interval(start_ns, end_ns)) as dur_ns,
        max(end_ns) filter (has_valid_interval(start_ns, end_ns)) - min(start_ns) filter (has_valid_interval(start_ns, end_ns)) as span_ns,
        any_value(api_ns) as api_ns
    from nodes
    group by run, rank, device, part
),
sized as (
    select
        l.run, l.rank, l.device, l.part.graph as graph, l.part.recorded as recorded,
        l.kernels, l.copies, l.memsets, l.dur_ns, l.span_ns, l.api_ns, b.busy_ns,
        case when l.part.recorded = 'whole' then s.nodes else l.kernels + l.copies + l.memsets end as nodes
    from launches as l
    left join busy('nodes') as b
        on l.run = b.run and l.rank = b.rank and l.device is not distinct from b.device and l.part = b.part
    left join sizes as s
        on l.run = s.run and l.part.source = s.source and l.rank = s.rank and l.device is not distinct from s.device
        and l.part.pid is not distinct from s.pid and l.part.correlation is not distinct from s.correlation
    union all
    select c.run, c.rank, null, null, 'nothing', 0, 0, 0, null, null, c.api_ns, null, null
    from graph_calls as c
    left join launches as l
        on c.run = l.run and c.source = l.part.source and c.pid is not distinct from l.part.pid
        and c.correlation = l.part.correlation
    where l.run is null and $device is null
),
graphs as (
    select
        run, rank, device, graph, recorded,
        count(*) as launches,
        sum(kernels) as kernels,
        sum(copies) as copies,
        sum(memsets) as memsets,
        min(nodes) as min_nodes,
        max(nodes) as max_nodes,
        coalesce(sum(dur_ns), 0) as dur_ns,
        coalesce(sum(busy_ns), 0) as busy_ns,
        coalesce(sum(span_ns), 0) as span_ns,
        count(span_ns) as timed,
        count(api_ns) as api_calls,
        coalesce(sum(api_ns), 0) as api_ns
    from sized
    group by run, rank, device, graph, recorded, case when graph is null then nodes end
),
device_sums as (
    select run, rank, device, sum(dur_ns) as gpu_activity_ns
    from activity
    where has_valid_interval(start_ns, end_ns)
    group by run, rank, device
)
select
    g.run, g.rank, g.device, g.graph, g.recorded, g.launches,
    as_bigint(g.kernels) as kernels,
    as_bigint(g.copies) as copies,
    as_bigint(g.memsets) as memsets,
    g.min_nodes, g.max_nodes,
    as_bigint(g.dur_ns) as dur_ns,
    as_bigint(g.busy_ns) as busy_ns,
    as_bigint(g.span_ns) as span_ns,
    as_bigint(round(g.span_ns / nullif(g.timed, 0))) as mean_span_ns,
    g.busy_ns / nullif(g.span_ns, 0) as busy_ratio,
    g.api_calls,
    as_bigint(g.api_ns) as api_ns,
    as_bigint(round(g.api_ns / nullif(g.api_calls, 0))) as mean_api_ns,
    zero_if_missing(d.run, as_bigint(d.gpu_activity_ns)) as gpu_activity_ns,
    g.dur_ns / nullif(d.gpu_activity_ns, 0) as of_gpu_activity_ratio,
    case
        when g.graph is not null then 'graph ' || g.graph
        when g.min_nodes = 1 then '1 node'
        when g.min_nodes is not null then g.min_nodes || ' nodes'
        when g.recorded = 'nothing' then 'nothing recorded'
        else 'unknown nodes'
    end as what
from graphs as g
left join device_sums as d on g.run = d.run and g.rank = d.rank and g.device is not distinct from d.device
order by g.run, g.rank, g.device, g.graph, g.recorded, g.min_nodes, g.max_nodes
