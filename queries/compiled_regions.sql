-- What torch.compile made of each rank's steps: its regions, graph breaks, recompilations, and the GPU work left to eager ops.
-- A row is one run and rank whose trace has marks of torch.compile. A region is a frame of Python that Dynamo compiled. One
-- that is entered inside another one goes on after a graph break: Dynamo would have inlined it. Each number after the slash
-- of `Torch-Compiled Region: 0/2` is a recompilation of frame 0, also before the recording began. GPU work belongs to a graph
-- if it was launched in a call of CompiledFunction, CompiledFunctionBackward or CompiledFxGraph, or where the source marks
-- none of these, in a region; other work is eager. The ranges themselves are no work: their projections on the GPU count
-- nothing. Without a mark of regions (torch before 2.1) the columns of regions are NULL.
-- /// query
-- title = "Compiled regions"
-- needs = ["ops"]
-- show = ["run", "rank", "regions_per_step", "graph_breaks", "recompilations", "compile_ns", "cache_lookup_ns", "eager_ratio"]
-- chart = { kind = "stacked", x = "rank", y = ["fused_gpu_ns", "library_gpu_ns", "eager_gpu_ns", "unlinked_gpu_ns"], by = "run" }
-- hints = [
--     { when = "not exists (from compile_marks where matches(run, $run) and matches(rank, $rank))", text = "no range of torch.compile is recorded; compile the model with torch.compile, and record its ops with the PyTorch profiler", empty = true },
--     { when = "exists (from (select bool_or(kind = 'region') as has_regions from compile_marks where matches(run, $run) and matches(rank, $rank) group by run, rank) where not has_regions)", text = "no region is marked, so columns of regions are NULL there: torch marks regions since 2.1" },
-- ]
-- [params]
-- common = ["run", "rank", "step_name"]
-- [columns]
-- common = ["run", "rank"]
-- steps = "Steps that the recording marks."
-- regions = "Different frames that were entered."
-- region_calls = "Calls of them."
-- regions_per_step = "Different frames entered in a step, the mean over the steps."
-- graph_breaks = "Calls of regions inside another one."
-- graph_breaks_per_step = "Those that begin in a step / steps."
-- recompilations = "Compilations of the frames after the first one, added up, as the highest number of each shows."
-- recompiled_regions = "The frames that have any, with their number: 0 (2), 4 (1)."
-- compilations = "Compilations that ran in the recording; one inside another is part of it."
-- compile_ns = "Their durations, added up."
-- cache_lookups = "Searches of Dynamo's cache for the code of a frame."
-- cache_lookup_ns = "Their durations, added up."
-- graph_calls = "Calls of compiled graphs, forward and backward."
-- graph_cpu_ns = "Their durations on the CPU, added up."
-- generated_kernels = "Different kernels that Inductor generated and that ran."
-- fused_gpu_ns = "Durations of these kernels, added up."
-- library_gpu_ns = "Durations of other GPU rows that graphs launched, added up: of cuBLAS, cuDNN, copies."
-- eager_gpu_ns = "Durations of GPU rows launched outside of graphs, added up."
-- unlinked_gpu_ns = "Durations of other GPU rows: their launch is not recorded, or they replay a CUDA graph."
-- eager_ratio = "eager_gpu_ns / gpu_activity_ns."
-- gpu_activity_ns = "Durations of all GPU rows of the rank, added up."
-- captured_launches = "Kernels launched while a CUDA or HIP graph was captured: these only record what replays run. Where they are more than the rows of the GPU, eager_ratio is NULL: these rows are not what the program runs."
-- [report]
-- section = "host"
-- order = 4
-- row = "rank[s]"
-- show_if = "region_calls > 0 or graph_calls > 0 or compile_ns > 0"
-- without = "no range of torch.compile was recorded: compile the model, and record its ops with PyTorch's profiler"
-- ok_text = "No step has a graph break, and none waits for the compiler."
-- unknown = "Whether the compiled code has graph breaks is not known: torch marks regions since 2.1."
-- [[report.findings]]
-- when = "graph_breaks > 0"
-- by = "graph_breaks"
-- text = "[{where}: ]{graph_breaks} graph breaks in {region_calls} calls of compiled regions: ops do not fuse across a break."
-- advice = "TORCH_LOGS=graph_breaks names the line of each; torch.compile(fullgraph=True) refuses them."
-- [[report.findings]]
-- when = "compilations > 0"
-- by = "compile_ns"
-- text = "[{where}: ]{compilations} compilations took {compile_ns} of the recording."
-- advice = "Warm up for more steps before the recording; TORCH_LOGS=recompiles names the guard that failed, and torch.compile(dynamic=True) keeps shapes that change from compiling anew."
-- ///
with marks as materialized (
    select row_number() over () as id, *
    from compile_marks
    where matches(run, $run) and matches(rank, $rank) and has_valid_interval(start_ns, end_ns)
),
kinds as not materialized (
    select id, run, source, pid, tid, kind as part, start_ns, end_ns from marks
),
by_kind as (
    select
        m.run, m.rank,
        count(*) filter (kind = 'compile') as compilations,
        coalesce(sum(end_ns - start_ns) filter (kind = 'compile'), 0) as compile_ns,
        count(*) filter (kind = 'lookup') as cache_lookups,
        coalesce(sum(end_ns - start_ns) filter (kind = 'lookup'), 0) as cache_lookup_ns,
        count(*) filter (kind = 'graph') as graph_calls,
        coalesce(sum(end_ns - start_ns) filter (kind = 'graph'), 0) as graph_cpu_ns
    from marks as m
    semi join outermost('kinds') using (id)
    group by m.run, m.rank
),
region_marks as materialized (
    select
        id, run, source, rank, pid, tid, start_ns, end_ns,
        split_part(region, '/', 1) as frame,
        split_part(region, '/', 2)::bigint as compilation
    from marks
    where kind = 'region'
),
all_steps as materialized (
    from recorded_steps($run, $rank, $step_name)
),
entered as materialized (
    select r.id, r.run, r.rank, r.frame, coalesce(n.depth > 1, false) as continues, s.id as step_id
    from region_marks as r
    left join (select id, depth from nesting('region_marks')) as n using (id)
    left join (
        select p.id, s.id as step_id, s.end_ns
        from with_process('region_marks', 'all_steps') as p
        asof join all_steps as s on p.process = s.process and p.start_ns >= s.start_ns
    ) as w on r.id = w.id and r.start_ns < w.end_ns
    left join all_steps as s on w.step_id = s.id
),
step_counts as (
    select run, rank, count(*) as steps from all_steps group by run, rank
),
frames_of_steps as (
    select run, rank, sum(frames) as frames
    from (
        select run, rank, step_id, count(distinct coalesce(frame, '')) as frames
        from entered
        where step_id is not null
        group by run, rank, step_id
    )
    group by run, rank
),
regions as (
    select
        run, rank,
        nullif(count(distinct frame), 0) as regions,
        count(*) as region_calls,
        count(*) filter (continues) as graph_breaks,
        count(*) filter (continues and step_id is not null) as breaks_in_steps
    from entered
    group by run, rank
),
recompiled as (
    select
        run, rank, sum(recompilations) as recompilations,
        string_agg(frame || ' (' || recompilations || ')', ', ' order by frame::bigint) filter (recompilations > 0) as recompiled_regions
    from (
        select run, rank, frame, max(compilation) as recompilations
        from region_marks
        where frame is not null
        group by run, rank, frame
    )
    group by run, rank
),
graph_sources as (
    select distinct run, source from marks where kind = 'graph'
),
graphs as materialized (
    select m.id, m.run, m.source, m.pid, m.tid, m.start_ns, m.end_ns
    from marks as m
    left join graph_sources as g using (run, source)
    where m.kind = case when g.run is null then 'region' else 'graph' end
),
compiled_ranks as (
    select distinct run, rank from marks
),
host_ops as materialized (
    select row_number() over () as id, run, source, pid, tid, start_ns, end_ns, external_id
    from ops
    semi join compiled_ranks using (run, rank)
),
activity as materialized (
    select
        row_number() over () as id, run, source, rank, pid, name, correlation, external_id,
        case when has_valid_interval(start_ns, end_ns) then dur_ns else 0 end as gpu_ns
    from gpu_activity
    semi join compiled_ranks using (run, rank)
),
api as (
    select run, source, pid, tid, correlation, start_ns, end_ns
    from api_calls
    semi join compiled_ranks using (run, rank)
),
points as materialized (
    from launch_points('activity', 'api', 'host_ops')
),
replayed as (  -- captured in a CUDA graph, by compiled code or by eager ops
    select a.id
    from activity as a
    semi join (
        select run, source, correlation from api_calls semi join compiled_ranks using (run, rank) where name like '%GraphLaunch%'
    ) using (run, source, correlation)
),
generated as (
    select name from (select distinct name from activity) where is_generated_kernel(name)
),
launched as (
    select
        a.run, a.rank, a.name, a.gpu_ns,
        case
            when g.name is not null then 'fused'
            when i.parent is not null then 'library'
            when p.id is null or r.id is not null then 'unlinked'
            else 'eager'
        end as part
    from activity as a
    left join generated as g using (name)
    left join points as p on a.id = p.id
    left join innermost('graphs', 'points') as i on a.id = i.id
    left join replayed as r on a.id = r.id
),
gpu_times as (
    select
        a.run, a.rank,
        count(distinct a.name) filter (a.part = 'fused') as generated_kernels,
        coalesce(sum(a.gpu_ns) filter (a.part = 'fused'), 0) as fused_gpu_ns,
        coalesce(sum(a.gpu_ns) filter (a.part = 'library'), 0) as library_gpu_ns,
        coalesce(sum(a.gpu_ns) filter (a.part = 'eager'), 0) as eager_gpu_ns,
        coalesce(sum(a.gpu_ns) filter (a.part = 'unlinked'), 0) as unlinked_gpu_ns,
        sum(a.gpu_ns) as gpu_activity_ns,
        count(*) as gpu_rows
    from launched as a
    group by a.run, a.rank
),
captures as materialized (
    from graph_captures($run)
),
captured as (
    select a.run, a.rank, count(*) as captured_launches
    from api_calls as a
    join captures as c
        on a.run = c.run and a.source = c.source and a.pid is not distinct from c.pid and a.tid is not distinct from c.tid
        and a.start_ns >= c.start_ns and a.start_ns < c.end_ns
    where a.name like '%LaunchKernel%' and matches(a.run, $run) and matches(a.rank, $rank)
    group by a.run, a.rank
)
select
    c.run, c.rank,
    coalesce(s.steps, 0)::bigint as steps,
    r.regions,
    r.region_calls,
    coalesce(f.frames, 0) / case when r.run is not null then s.steps end as regions_per_step,
    r.graph_breaks,
    r.breaks_in_steps / s.steps as graph_breaks_per_step,
    as_bigint(e.recompilations) as recompilations,
    e.recompiled_regions,
    coalesce(k.compilations, 0) as compilations,
    as_bigint(coalesce(k.compile_ns, 0)) as compile_ns,
    coalesce(k.cache_lookups, 0) as cache_lookups,
    as_bigint(coalesce(k.cache_lookup_ns, 0)) as cache_lookup_ns,
    coalesce(k.graph_calls, 0) as graph_calls,
    as_bigint(coalesce(k.graph_cpu_ns, 0)) as graph_cpu_ns,
    coalesce(g.generated_kernels, 0) as generated_kernels,
    as_bigint(coalesce(g.fused_gpu_ns, 0)) as fused_gpu_ns,
    as_bigint(coalesce(g.library_gpu_ns, 0)) as library_gpu_ns,
    as_bigint(coalesce(g.eager_gpu_ns, 0)) as eager_gpu_ns,
    as_bigint(coalesce(g.unlinked_gpu_ns, 0)) as unlinked_gpu_ns,
    case when coalesce(l.captured_launches, 0) <= g.gpu_rows then g.eager_gpu_ns / nullif(g.gpu_activity_ns, 0) end as eager_ratio,
    as_bigint(coalesce(g.gpu_activity_ns, 0)) as gpu_activity_ns,
    coalesce(l.captured_launches, 0) as captured_launches
from compiled_ranks as c
left join by_kind as k on c.run = k.run and c.rank = k.rank
left join regions as r on c.run = r.run and c.rank = r.rank
left join recompiled as e on c.run = e.run and c.rank = e.rank
left join step_counts as s on c.run = s.run and c.rank = s.rank
left join frames_of_steps as f on c.run = f.run and c.rank = f.rank
left join gpu_times as g on c.run = g.run and c.rank = g.rank
left join captured as l on c.run = l.run and c.rank = l.rank
order by c.run, c.rank
