-- Recordings: host, GPUs, profiler, and rows of each kind.
-- A row is one run and rank. Counts are of rows of the tables, over all sources of the run; `rank` is NULL where a run has
-- nothing that belongs to a process. `tracelab doctor` lists what a profiler could not record or a reader skipped.
-- /// query
-- title = "Recordings"
-- needs = ["sources"]
-- show = ["run", "rank", "producer", "gpu", "gpus", "kernels", "steps", "events_kept"]
-- [params]
-- common = ["run", "rank"]
-- [columns]
-- common = ["run", "rank"]
-- producer = "What wrote the run's files, each program once."
-- workload = "What ran: the workload and its model, else the program, where the run has them."
-- host = "Host of its GPUs."
-- gpu = "Its GPUs, each model once."
-- gpus = "GPUs that the process saw."
-- kernels = "common"
-- copies = "Copies and memsets."
-- api_calls = "Calls of the runtime, the driver and libraries."
-- ops = "Calls of framework ops."
-- ranges = "Annotated ranges and marks."
-- memory_events = "Allocations and releases."
-- metrics = "Metrics of single kernels, as ncu and nvprof count them."
-- steps = "Training steps and epochs that a run folder records."
-- files = "Files of the run."
-- events_kept = "Events of the run's files that became rows."
-- events_skipped = "Events of the run's files that could not be read."
-- [report]
-- section = "recordings"
-- order = 1
-- ok_text = "Every event that the files hold was kept."
-- unknown = "Whether every event was kept is not known: the files do not have their number."
-- [[report.findings]]
-- when = "events_skipped > 0"
-- by = "events_skipped"
-- each = "run"
-- most = 3
-- text = "{run}: {events_skipped} events of its files could not be read[; {events_kept} were kept]."
-- advice = "See the health of the data for what and why."
-- ///
with events as (
    select run, rank, 'kernels' as kind from kernels
    union all
    select run, rank, 'copies' from memcpys
    union all
    select run, rank, 'copies' from memsets
    union all
    select run, rank, 'api_calls' from api_calls
    union all
    select run, rank, 'ops' from ops
    union all
    select run, rank, 'ranges' from annotations
    union all
    select run, rank, 'memory_events' from memory_events
    union all
    select run, rank, 'metrics' from kernel_metrics
    union all
    select run, rank, 'steps' from steps
),
counts as (
    select
        run, rank,
        count(*) filter (kind = 'kernels') as kernels,
        count(*) filter (kind = 'copies') as copies,
        count(*) filter (kind = 'api_calls') as api_calls,
        count(*) filter (kind = 'ops') as ops,
        count(*) filter (kind = 'ranges') as ranges,
        count(*) filter (kind = 'memory_events') as memory_events,
        count(*) filter (kind = 'metrics') as metrics,
        count(*) filter (kind = 'steps') as steps
    from events
    where matches(run, $run) and matches(rank, $rank)
    group by run, rank
),
cards as (
    select
        run, rank,
        string_agg(distinct host, ', ' order by host) as host,
        string_agg(distinct name, ', ' order by name) as gpu,
        count(distinct device) as gpus
    from devices
    group by run, rank
),
files as (
    select
        run,
        string_agg(distinct program, ', ' order by program) as producer,
        count(*) as files,
        as_bigint(sum(events_kept)) as events_kept,
        as_bigint(sum(events_skipped)) as events_skipped
    from (  -- a program that has a version in some of the run's files is the same one in those without
        select *, concat_ws(if(format = 'kineto', ' schema ', ' '), name, coalesce(producer_version, max(producer_version) over (partition by run, name))) as program
        from (select *, coalesce(producer, format) as name from sources)
    )
    where matches(run, $run)
    group by run
)
select
    f.run, c.rank, f.producer,
    coalesce(nullif(concat_ws(' ', r.workload, r.model), ''), r.program) as workload,
    coalesce(d.host, r.host) as host,
    coalesce(d.gpu, r.gpu) as gpu,
    d.gpus,
    coalesce(c.kernels, 0) as kernels,
    coalesce(c.copies, 0) as copies,
    coalesce(c.api_calls, 0) as api_calls,
    coalesce(c.ops, 0) as ops,
    coalesce(c.ranges, 0) as ranges,
    coalesce(c.memory_events, 0) as memory_events,
    coalesce(c.metrics, 0) as metrics,
    coalesce(c.steps, 0) as steps,
    f.files, f.events_kept, f.events_skipped
from files as f
left join counts as c on f.run = c.run
left join cards as d on f.run = d.run and c.rank = d.rank
left join runs as r on f.run = r.run
where $rank is null or c.rank is not null
order by f.run, c.rank
