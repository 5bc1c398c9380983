-- Recordings: host, GPUs, profiler, and rows of each kind.
-- A row is one run and rank. Counts are of rows of the tables that the rank has. A file counts once: at the rank that has rows
-- of it, of several at the first one, and where no rank has any (as of run.json) at the run's first rank. `rank` is NULL where a
-- run has nothing that belongs to a process. `tracelab doctor` lists what a profiler could not record or a reader skipped.
-- /// query
-- title = "Recordings"
-- needs = ["sources"]
-- show = ["run", "rank", "producer", "gpu", "gpus", "kernels", "steps", "events_kept"]
-- [params]
-- common = ["run", "rank"]
-- [columns]
-- common = ["run", "rank"]
-- producer = "What wrote the files with rows of the rank, each program once."
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
-- files = "Files that count at the rank."
-- events_kept = "Events of these files that became rows."
-- events_skipped = "Events of these files that could not be read."
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
-- text = "{where}: {events_skipped} events of its files could not be read[; {events_kept} were kept]."
-- advice = "See the health of the data for what and why."
-- ///
with of_tables as (
    select run, source, rank, count(*) as kernels from kernels where matches(run, $run) group by run, source, rank
    union all by name
    select run, source, rank, count(*) as copies from memcpys where matches(run, $run) group by run, source, rank
    union all by name
    select run, source, rank, count(*) as copies from memsets where matches(run, $run) group by run, source, rank
    union all by name
    select run, source, rank, count(*) as api_calls from api_calls where matches(run, $run) group by run, source, rank
    union all by name
    select run, source, rank, count(*) as ops from ops where matches(run, $run) group by run, source, rank
    union all by name
    select run, source, rank, count(*) as ranges from annotations where matches(run, $run) group by run, source, rank
    union all by name
    select run, source, rank, count(*) as memory_events from memory_events where matches(run, $run) group by run, source, rank
    union all by name
    select run, source, rank, count(*) as metrics from kernel_metrics where matches(run, $run) group by run, source, rank
    union all by name
    select run, source, rank, count(*) as steps from steps where matches(run, $run) group by run, source, rank
),
of_files as (
    select
        run, source, rank,
        sum(kernels) as kernels,
        sum(copies) as copies,
        sum(api_calls) as api_calls,
        sum(ops) as ops,
        sum(ranges) as ranges,
        sum(memory_events) as memory_events,
        sum(metrics) as metrics,
        sum(steps) as steps
    from of_tables
    group by run, source, rank
),
counts as (
    select
        run, rank,
        as_bigint(sum(kernels)) as kernels,
        as_bigint(sum(copies)) as copies,
        as_bigint(sum(api_calls)) as api_calls,
        as_bigint(sum(ops)) as ops,
        as_bigint(sum(ranges)) as ranges,
        as_bigint(sum(memory_events)) as memory_events,
        as_bigint(sum(metrics)) as metrics,
        as_bigint(sum(steps)) as steps
    from of_files
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
programs as (  -- a program that has a version in some of the run's files is the same one in those without
    select *, concat_ws(if(format = 'kineto', ' schema ', ' '), name, coalesce(producer_version, max(producer_version) over (partition by run, name))) as program
    from (select *, coalesce(producer, format) as name from sources)
    where matches(run, $run)
),
placed as (  -- each file at the ranks with rows of it, else at the first rank of the run
    select
        p.run, p.program, p.events_kept, p.events_skipped,
        coalesce(o.rank, f.rank) as rank,
        o.rank is null or o.rank = min(o.rank) over (partition by p.run, p.source) as is_counted
    from programs as p
    left join of_files as o on p.run = o.run and p.source = o.source
    left join (select run, min(rank) as rank from of_files group by run) as f on p.run = f.run
),
files as (
    select
        run, rank,
        string_agg(distinct program, ', ' order by program) as producer,
        count(*) filter (is_counted) as files,
        as_bigint(sum(events_kept) filter (is_counted)) as events_kept,
        as_bigint(sum(events_skipped) filter (is_counted)) as events_skipped
    from placed
    group by run, rank
)
select
    f.run, f.rank, f.producer,
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
left join counts as c on f.run = c.run and f.rank is not distinct from c.rank
left join cards as d on f.run = d.run and f.rank = d.rank
left join runs as r on f.run = r.run
where matches(f.rank, $rank)
order by f.run, f.rank
