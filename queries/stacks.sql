-- What each stack of Python frames and ops costs: time on the CPU, GPU time that it launched, or bytes that it allocated.
-- A row is one run, rank and node of the tree of stacks: a frame below the same frames, of all threads of the rank. Frames are
-- those of Python and ops; with --by python those of Python alone, with --by module the nn.Modules among them. `own` adds
-- up to the whole: of the CPU the durations of all outermost frames (a call that ends after the one that it began in is
-- outermost, too), of the GPU those of all GPU rows, of memory all bytes allocated. Time on the CPU is wall time: a call that
-- waits for the GPU, a lock or data costs as long as one that works, and threads that sleep, as those of data loaders, add up:
-- `is_wait` marks frames that only wait. A GPU row belongs to the innermost frame at its launch, and a kernel that a graph replays to that of its capture (see graph_replays). One that a backward op
-- launched on a thread without frames belongs to the stack of its forward op, by autograd's sequence number, below a frame
-- `(backward)`; what has no frame at all is in `(no frame)`. Addresses of objects in names are left out. `tracelab export
-- --collapsed` and `--speedscope` write the stacks for other tools.
-- /// query
-- title = "Flame graph of stacks"
-- needs = ["python_frames", "ops"]
-- subject = "host"
-- show = ["run", "rank", "node", "parent", "frame", "own", "total", "of_whole_ratio"]
-- hints = [
--     { when = "not exists (from python_frames where matches(run, $run) and matches(rank, $rank))", text = "no Python frame is recorded; record them with with_stack=True of the PyTorch profiler" },
--     { when = "$measure in ('gpu_memory', 'cpu_memory') and not exists (from memory_events where matches(run, $run) and matches(rank, $rank))", text = "no allocation is recorded; record them with profile_memory=True of the PyTorch profiler" },
-- ]
-- [params]
-- common = ["run", "rank"]
-- measure = { default = "cpu", choices = ["cpu", "gpu", "gpu_memory", "cpu_memory"], about = "what a stack costs: time on the CPU, GPU time that it launched (both ns), or bytes that it allocated on GPUs or on the host" }
-- by = { default = "stack", choices = ["stack", "python", "module"], about = "what the rows are of" }
-- captures_from = "common"
-- [columns]
-- common = ["run", "rank"]
-- node = "Number of the node within the run and rank, from 1; parents come before their children."
-- parent = "Number of the node above; NULL of a root."
-- depth = "Frames from the root, itself included."
-- frame = "Name of the frame, as file(line): function, of the op or of the module."
-- own = "Of the frame itself, without those below: ns, or bytes. ns of the CPU are wall time, waiting included."
-- total = "own of the frame and all below, added up."
-- calls = "Calls of the frame; NULL of (backward), of (no frame), and of what is below (backward). Of kernels that graphs replay those in the capture; of the GPU with --scope-by execution those of the whole recording."
-- of_whole_ratio = "total / whole."
-- whole = "own of all nodes of the run and rank, added up."
-- is_wait = "Whether the frame itself only waits: for a lock, a time, a process, data of a pipe, socket or queue, or the GPU, as in torch.cuda.synchronize(). A copy that waits, as that of .item(), is not marked: sync_points has it."
-- ///
with recursive replayed as materialized (
    from known_replays($run, $rank, $captures_from) where $measure = 'gpu'
),
frames as not materialized (
    select run, source, rank, pid, tid, start_ns, end_ns, name
    from python_frames
    where matches(run, $run) and matches(rank, $rank)
    -- /// if by = stack
    union all
    select run, source, rank, pid, tid, start_ns, end_ns, name
    from ops
    where $by = 'stack' and matches(run, $run) and matches(rank, $rank)
    -- /// end
    -- /// if measure = gpu
    union all
    select run, source, rank, pid, tid, start_ns, end_ns, name from naming_frames($run, $rank, 'replayed')
    union all
    select run, source, rank, pid, tid, start_ns, end_ns, name from naming_ops($run, $rank, 'replayed') where $by = 'stack'
    -- /// end
),
recorded as not materialized (
    select
        row_number() over () as place, run, source, rank, pid, tid, start_ns, end_ns,
        case when $by = 'module' then substr(name, 12) else name end as name
    from frames
    where has_valid_interval(start_ns, end_ns) and ($by <> 'module' or starts_with(name, 'nn.Module: '))
),
names as materialized (  -- a method of each object of a class has one name
    select run, rank, name, frame, dense_rank() over (order by run, rank, frame) as kind
    from (
        select run, rank, name, regexp_replace(name, ' at 0x[0-9a-fA-F]+', '', 'g') as frame
        from (select distinct run, rank, name from recorded)
    )
),
kinds as materialized (
    select distinct kind, run, rank, frame from names
),
calls as not materialized (  -- the last 31 bits of a call's id are its kind, those before its place in the trace
    select (r.place << 31) + n.kind as id, r.run, r.source, r.pid, r.tid, r.start_ns, r.end_ns
    from recorded as r
    join hint_small('names') as n on r.run = n.run and r.rank = n.rank and r.name is not distinct from n.name
),
host_ops as materialized (
    from surrounding_ops($run, $rank, 'replayed') where $measure = 'gpu'
),
activity as materialized (
    select
        id, run, source, rank, pid, device, stream, kind, start_ns, end_ns, correlation, external_id, graph_node,
        gpu_ns as weight
    from filtered_activity($run, $rank)
    where $measure = 'gpu'
),
api as (
    from filtered_calls($run, $rank) where $measure = 'gpu'
),
launches as materialized (
    select id, run, source, pid, tid, at_ns from linked_points('activity', 'api', 'host_ops', 'replayed')
),
allocations as materialized (
    select row_number() over () as id, run, source, rank, pid, tid, time_ns as at_ns, size_bytes as weight
    from memory_events
    where
        $measure = case when device is null then 'cpu_memory' else 'gpu_memory' end and size_bytes > 0
        and matches(run, $run) and matches(rank, $rank)
),
laid as materialized (  -- with points, as calls without duration: ids of launches and allocations are odd numbers below 0,
    from calls  -- those of the places of forward ops even ones
    union all
    select 1 - 2 * id, run, source, pid, tid, at_ns, at_ns from launches
    union all
    select 1 - 2 * id, run, source, pid, tid, at_ns, at_ns from allocations
    union all
    select -2 * id, run, source, pid, tid, at_ns, at_ns from forward_ops('host_ops')
),
nest as materialized (
    select id, parent, end_ns - start_ns as dur_ns from nesting('laid')
),
found_places(id, node, above, dur_ns) as (  -- calls of one kind below one node are one node: the first of them
    select id, min(id) over (partition by id & 2147483647), null::bigint, dur_ns
    from nest
    where parent is null and id > 0
    union all
    select n.id, min(n.id) over (partition by p.node, n.id & 2147483647), p.node, n.dur_ns
    from found_places as p
    join nest as n on n.parent = p.id
    where n.id > 0
),
places as materialized (
    from found_places
),
nodes as materialized (
    select p.node, k.run, k.rank, k.frame, p.above, p.calls, p.dur_ns
    from (
        select node, any_value(above) as above, count(*) as calls, sum(dur_ns) as dur_ns
        from places
        group by node
    ) as p
    join kinds as k on p.node & 2147483647 = k.kind
),
inner_times as (
    select above as node, sum(dur_ns) as dur_ns from nodes where above is not null group by above
),
callers as materialized (
    select id, parent as call from nest where id < 0 and parent is not null
),
weighted as (
    select id, run, rank, weight from activity
    union all
    select id, run, rank, weight from allocations
),
weights as materialized (
    select run, rank, node, is_backward, sum(weight) as own
    from (
        select w.run, w.rank, p.node, d.id is null and f.id is not null as is_backward, w.weight
        from weighted as w
        left join callers as d on 1 - 2 * w.id = d.id
        left join innermost_backward('host_ops', 'launches') as b on w.id = b.id
        left join callers as f on -2 * b.op = f.id
        left join places as p on coalesce(d.call, f.call) = p.id
        union all
        select n.run, n.rank, n.node, false, n.dur_ns - coalesce(i.dur_ns, 0)
        from nodes as n
        left join inner_times as i on n.node = i.node
        where $measure = 'cpu'
    )
    group by run, rank, node, is_backward
),
lines(node, above, path) as (  -- each node with those above it and itself
    select node, above, [node] from nodes where above is null
    union all
    select n.node, n.above, list_append(l.path, n.node)
    from lines as l
    join nodes as n on n.above = l.node
),
totals as (
    select
        run, rank, is_backward, node,
        sum(own) filter (leaf is not distinct from node) as own,
        sum(own) as total
    from (
        select w.run, w.rank, w.is_backward, w.own, w.node as leaf, unnest(coalesce(l.path, [null])) as node
        from weights as w
        left join lines as l on w.node = l.node
    )
    group by run, rank, is_backward, node
),
listed as (
    select run, rank, is_backward, node, own, total from totals
    union all
    select run, rank, true, null, 0, sum(own) from weights where is_backward group by run, rank
),
numbered as materialized (
    select
        l.run, l.rank, l.is_backward, l.node, n.above, l.own, l.total,
        coalesce(n.depth, 0) + case when l.is_backward or l.node is null then 1 else 0 end as depth,
        case when l.node is not null then n.frame when l.is_backward then '(backward)' else '(no frame)' end as frame,
        case when not l.is_backward then n.calls end as calls,
        row_number() over (
            partition by l.run, l.rank order by coalesce(n.depth, 0), l.is_backward, l.total desc, n.frame, l.node
        ) as number,
        sum(l.own) over (partition by l.run, l.rank) as whole
    from listed as l
    left join (select n.*, len(p.path) as depth from nodes as n join lines as p using (node)) as n on l.node = n.node
)
select
    n.run, n.rank,
    n.number as node,
    p.number as parent,
    n.depth::bigint as depth,
    n.frame,
    as_bigint(coalesce(n.own, 0)) as own,
    as_bigint(n.total) as total,
    n.calls,
    n.total / nullif(n.whole, 0) as of_whole_ratio,
    as_bigint(n.whole) as whole,
    is_waiting_frame(n.frame) as is_wait
from numbered as n
left join numbered as p
    on n.run = p.run and n.rank = p.rank and n.is_backward = p.is_backward and n.node is not null
    and p.node is not distinct from n.above and (n.above is not null or n.is_backward)
order by n.run, n.rank, n.number
