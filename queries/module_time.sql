-- How long the GPU works for each nn.Module, in the forward and the backward pass and in recomputation: a tree of modules.
-- A row is one run, rank and place in the tree of modules; `module` names the modules around it, too. A GPU row belongs to the
-- innermost module whose forward pass ran when it was launched, on the launching thread. One that a backward op launched
-- belongs to the module of its forward op, by autograd's sequence number. What a module's forward pass launches within the
-- backward pass is recomputation, as of torch.utils.checkpoint; it counts at the module's place in the tree. GPU rows of no
-- module have rows without a module, one a phase: optimizer within ranges of its step, else forward, backward or, without
-- recorded ops, other.
-- A kernel that a graph replays belongs to the module of its capture, where a run of the store has it (see graph_replays).
-- Own times add up to the durations of all GPU rows. Exposed communication includes that of modules inside: of the modules of
-- depth 1 and the rows without a module together it is that of gpu_breakdown. Memory belongs to a
-- module as a GPU row does, by when it was allocated. Modules are recorded with with_stack=True of the PyTorch profiler. Of nsys
-- the NVTX ranges that a program pushes are its modules, but those of libraries, of ops and of steps; ops of emit_nvtx()
-- have sequence numbers.
-- /// query
-- title = "Time by module"
-- needs = ["python_frames", "annotations"]
-- subject = "kernels"
-- show = ["run", "rank", "module", "phase", "calls", "forward_ns", "backward_ns", "recompute_ns", "exposed_comm_ns", "of_gpu_activity_ratio"]
-- chart = { kind = "bars", x = "module", y = ["own_ns"], by = "run" }
-- hints = [
--     { when = "misses_captures($run, $rank, $captures_from)", text = "kernels of graphs have no op: no run that was read has their capture; graph_replays finds the run that does: name it with --captures-from" },
--     { when = "not exists (from module_frames($run, $rank))", text = "no module is recorded; record modules with with_stack=True of the PyTorch profiler, or under nsys push an NVTX range around each" },
-- ]
-- [params]
-- common = ["run", "rank"]
-- by = { default = "module", choices = ["module", "class"], about = "what the rows are of" }
-- most_depth = { type = "integer", example = 2, about = "only modules of at most that depth" }
-- captures_from = "common"
-- [columns]
-- common = ["run", "rank"]
-- module = "The modules around it and itself, outermost first, joined by /; with --by class the class; NULL outside of all: optimizers, input, and mostly the collectives of data parallelism, which hooks of autograd launch: see exposed_comm_ns."
-- class = "Class of the module."
-- depth = "Number of modules in `module`; with --by class NULL."
-- layer = "The innermost module around, or itself, of whose class its parent has at least three: Block_3."
-- phase = "Of rows without a module: optimizer, forward, backward or other; else NULL."
-- calls = "Forward passes, recomputed ones included; of NVTX the ranges. 0 of a module whose kernels only graphs replay."
-- cpu_ns = "Their durations on the CPU, added up; with --by class of the outermost ones of the class."
-- gpu_ns = "forward_ns + backward_ns + recompute_ns, and of rows without a module own_ns."
-- own_ns = "Durations of GPU rows that belong to the module itself, to none inside."
-- forward_ns = "Durations of GPU rows of the forward pass, those of modules inside included."
-- backward_ns = "The same of the backward pass."
-- recompute_ns = "The same of forward passes within the backward pass."
-- gpu_rows = "GPU rows of the module and those inside: kernels, copies, memsets and whole graphs."
-- of_gpu_activity_ratio = "gpu_ns / gpu_activity_ns."
-- gpu_activity_ns = "Durations of all GPU rows of the rank, added up."
-- exposed_comm_ns = "Time in which its communication kernels ran, those of modules inside included, and no compute; of kernels that run at once that of the first. Modules of depth 1 and rows without a module add up to exposed_comm_ns of gpu_breakdown."
-- allocated_bytes = "Bytes of GPU memory that it allocates, modules inside included, released or not; NULL where the rank recorded no memory events."
-- host_allocated_bytes = "The same of host memory."
-- ///
with replayed as materialized (
    from known_replays($run, $rank, $captures_from)
),
frames as materialized (
    select row_number() over () as id, * exclude (id)
    from (
        from module_frames($run, $rank)
        union all by name
        select null as id, *, false as is_listed from naming_modules($run, $rank, 'replayed')
    )
),
places as materialized (
    from module_places('frames')
),
host_ops as materialized (
    select *, is_backward_node(name) as is_engine_call from surrounding_ops($run, $rank, 'replayed')
    union all by name
    select * exclude (id, op), -id as id, op as name, is_backward as is_engine_call from nvtx_ops($run, $rank)
),
activity as materialized (
    from filtered_activity($run, $rank)
),
api as not materialized (
    from filtered_calls($run, $rank)
),
executions as not materialized (
    select run, source, rank, pid, device, stream, name, start_ns, end_ns, gpu_ns as dur_ns, correlation, id as part
    from activity
    where kind = 'kernel'
),
kinds as materialized (
    select part as id, run, source, rank, device, start_ns, end_ns, class from with_class('executions')
),
communication as materialized (
    select id, run, source, rank, device, start_ns, end_ns from kinds where class = 'communication'
),
compute as not materialized (
    from hiding_compute('kinds', 'activity')
    where run in (select run from communication)
),
exposed as materialized (
    from exposed_times('communication', 'compute')
),
allocations as materialized (  -- numbered apart from the GPU rows
    select
        -row_number() over () as id, run, source, rank, pid, tid, time_ns as at_ns,
        case when device is not null then size_bytes end as device_bytes,
        case when device is null then size_bytes end as host_bytes
    from memory_events
    where matches(run, $run) and matches(rank, $rank) and size_bytes > 0
),
points as materialized (
    from linked_points('activity', 'api', 'host_ops', 'replayed')
    union all by name
    select id, run, source, pid, tid, at_ns from allocations
),
items as materialized (
    select a.id, a.run, a.rank, a.gpu_ns, 1 as gpu_rows, e.exposed_ns, null::bigint as device_bytes, null::bigint as host_bytes
    from activity as a
    left join exposed as e on a.id = e.id
    union all
    select id, run, rank, 0, 0, null, device_bytes, host_bytes from allocations
),
engine_calls as materialized (
    select id, run, source, pid, tid, start_ns, end_ns
    from host_ops
    where is_engine_call
),
optimizers as materialized (
    select row_number() over () as id, run, source, pid, tid, start_ns, end_ns
    from unscoped_annotations
    where matches(run, $run) and matches(rank, $rank) and scope = 'cpu' and is_optimizer_step(name)
),
forward_starts as materialized (
    from forward_ops('host_ops')
),
forward_frames as materialized (
    select id, parent as frame from innermost('frames', 'forward_starts')
),
placed as (
    select
        a.*,
        f.start_ns >= e.start_ns or f.id is not null and e.id is null as in_module,
        case
            when f.id is not null and e.id is null then 'forward'
            when f.start_ns >= e.start_ns then 'recompute'
            when e.id is not null then 'backward'
            when o.id is not null then 'optimizer'
            when (p.op is not null or p.tid is not null) and a.run in (select run from host_ops) then 'forward'
            else 'other'
        end as phase,
        case when in_module then f.id when e.id is not null then r.frame end as frame
    from items as a
    left join points as p on a.id = p.id
    left join innermost('frames', 'points') as i on a.id = i.id
    left join frames as f on i.parent = f.id
    left join innermost('engine_calls', 'points') as j on a.id = j.id
    left join engine_calls as e on j.parent = e.id
    left join innermost_backward('host_ops', 'points') as b on a.id = b.id
    left join forward_frames as r on b.op = r.id
    left join innermost('optimizers', 'points') as o on a.id = o.id
),
own as materialized (
    select
        a.run, a.rank, p.path, case when p.path is null then case a.phase when 'recompute' then 'other' else a.phase end end as phase,
        sum(a.gpu_ns) as own_ns,
        coalesce(sum(a.gpu_ns) filter (a.phase = 'forward'), 0) as forward_ns,
        coalesce(sum(a.gpu_ns) filter (a.phase = 'backward'), 0) as backward_ns,
        coalesce(sum(a.gpu_ns) filter (a.phase = 'recompute'), 0) as recompute_ns,
        sum(a.gpu_rows) as gpu_rows,
        coalesce(sum(a.exposed_ns), 0) as exposed_comm_ns,
        coalesce(sum(a.device_bytes), 0) as allocated_bytes,
        coalesce(sum(a.host_bytes), 0) as host_allocated_bytes
    from placed as a
    left join places as p on a.frame = p.id
    group by a.run, a.rank, p.path, case when p.path is null then case a.phase when 'recompute' then 'other' else a.phase end end
),
visited as materialized (  -- forward passes by their place in the tree
    select f.run, f.rank, p.path, any_value(f.class) as class, count(*) as calls, sum(f.end_ns - f.start_ns) as cpu_ns
    from places as p
    join frames as f on p.id = f.id
    where not p.is_inner and f.is_listed
    group by f.run, f.rank, p.path
),
families as (  -- the classes of which a module has at least three inside
    select run, rank, path[:-2] as parent, class
    from visited
    group by run, rank, parent, class
    having count(*) >= 3
),
layered as materialized (
    select v.run, v.rank, v.path, max_by(v.path[a.depth], a.depth) as layer
    from visited as v
    cross join lateral (select unnest(range(1, len(v.path) + 1)) as depth) as a
    join visited as w on v.run = w.run and v.rank = w.rank and v.path[:a.depth] = w.path
    join families as f on w.run = f.run and w.rank = f.rank and w.path[:-2] = f.parent and w.class = f.class
    group by v.run, v.rank, v.path
),
inside as (  -- what lies in each module: once in itself and once in each module around it
    select
        run, rank, path[:depth] as path,
        sum(own_ns) filter (depth = len(path)) as own_ns,
        sum(forward_ns) as forward_ns, sum(backward_ns) as backward_ns, sum(recompute_ns) as recompute_ns,
        sum(gpu_rows) as gpu_rows, sum(exposed_comm_ns) as exposed_comm_ns, sum(allocated_bytes) as allocated_bytes,
        sum(host_allocated_bytes) as host_allocated_bytes
    from (select *, unnest(range(1, len(path) + 1)) as depth from own where path is not null)
    group by run, rank, path[:depth]
),
classed as not materialized (
    select id, run, source, pid, tid, class as part, start_ns, end_ns from frames where is_listed
),
class_calls as (
    select f.run, f.rank, f.class, count(*) as calls, sum(case when u.id is not null then f.end_ns - f.start_ns end) as cpu_ns
    from frames as f
    left join outermost('classed') as u on f.id = u.id
    where f.is_listed
    group by f.run, f.rank, f.class
),
in_classes as (
    select
        run, rank, class,
        sum(own_ns) filter (class = module_class(path[-1])) as own_ns,
        sum(forward_ns) as forward_ns, sum(backward_ns) as backward_ns, sum(recompute_ns) as recompute_ns,
        sum(gpu_rows) as gpu_rows, sum(exposed_comm_ns) as exposed_comm_ns, sum(allocated_bytes) as allocated_bytes,
        sum(host_allocated_bytes) as host_allocated_bytes
    from (
        select *, unnest(list_distinct(list_transform(path, lambda name: module_class(name)))) as class
        from own
        where path is not null
    )
    group by run, rank, class
),
listed as (
    select
        run, rank, array_to_string(path, '/') as module, coalesce(v.class, module_class(path[-1])) as class,
        len(path) as depth, l.layer, null::varchar as phase, coalesce(v.calls, 0) as calls, v.cpu_ns,
        i.* exclude (run, rank, path)
    from visited as v
    full join inside as i using (run, rank, path)
    left join layered as l using (run, rank, path)
    where $by = 'module' and ($most_depth is null or len(path) <= $most_depth)
    union all
    select
        run, rank, class, class, null, null, null, coalesce(c.calls, 0), c.cpu_ns, i.* exclude (run, rank, class)
    from class_calls as c
    full join in_classes as i using (run, rank, class)
    where $by = 'class'
    union all
    select
        run, rank, null, null, null, null, phase, 0, null, own_ns, null, null, null, gpu_rows, exposed_comm_ns,
        allocated_bytes, host_allocated_bytes
    from own
    where path is null
),
recorded_memory as materialized (
    select distinct run, rank from unscoped_memory_events where matches(run, $run) and matches(rank, $rank)
),
totals as (
    select run, rank, sum(own_ns) as gpu_activity_ns from own group by run, rank
)
select
    l.run, l.rank, l.module, l.class,
    l.depth::bigint as depth,
    l.layer, l.phase,
    l.calls::bigint as calls,
    as_bigint(l.cpu_ns) as cpu_ns,
    as_bigint(case when l.module is null then l.own_ns else coalesce(l.forward_ns + l.backward_ns + l.recompute_ns, 0) end) as gpu_ns,
    as_bigint(coalesce(l.own_ns, 0)) as own_ns,
    as_bigint(case when l.module is not null then coalesce(l.forward_ns, 0) end) as forward_ns,
    as_bigint(case when l.module is not null then coalesce(l.backward_ns, 0) end) as backward_ns,
    as_bigint(case when l.module is not null then coalesce(l.recompute_ns, 0) end) as recompute_ns,
    as_bigint(coalesce(l.gpu_rows, 0)) as gpu_rows,
    gpu_ns / nullif(t.gpu_activity_ns, 0) as of_gpu_activity_ratio,
    as_bigint(coalesce(t.gpu_activity_ns, 0)) as gpu_activity_ns,
    as_bigint(coalesce(l.exposed_comm_ns, 0)) as exposed_comm_ns,
    as_bigint(case when m.run is not null then coalesce(l.allocated_bytes, 0) end) as allocated_bytes,
    as_bigint(case when m.run is not null then coalesce(l.host_allocated_bytes, 0) end) as host_allocated_bytes
from listed as l
left join totals as t on l.run = t.run and l.rank = t.rank
left join recorded_memory as m on l.run = m.run and l.rank = m.rank
order by l.run, l.rank, gpu_ns desc, l.depth, l.module, l.phase
