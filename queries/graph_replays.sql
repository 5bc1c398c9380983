-- Which op, shapes and module the kernels of replayed CUDA and HIP graphs belong to, from the trace in which they were captured.
-- A row is one run, rank, device, graph and kernel of it, in the order of the graph, with all replays of these kernels. A
-- replay records neither ops nor modules: they are those of the launch at the same place of a capture, in any run of the
-- store, whose kernel has the same name. Of several captures the one counts of which most names agree, then most grids, then
-- one of the same run, then the first. Where fewer than 95 % of the names agree, `reason` has the share and op, shapes and module are NULL. A capture is
-- what a thread launches between the calls that begin and end it. It names its kernels where the profiler records them with
-- the call, as on HIP.
-- /// query
-- title = "Ops of CUDA graph replays"
-- needs = ["kernels"]
-- subject = "launches"
-- show = ["run", "rank", "graph", "place", "kernel", "replays", "dur_ns", "op"]
-- [params]
-- common = ["run", "rank", "device"]
-- capture_run = { type = "text", example = "capture", about = "only captures of this run" }
-- min_agreement = { default = 0.95, about = "the share of names that must agree" }
-- [columns]
-- common = ["run", "rank", "device"]
-- graph = "Id of the graph, where the source records it."
-- replay_group = "Number of the graph within the run, by the kernels that it runs, from 1."
-- place = "Place of the kernel in the graph, from 1."
-- kernel = "common"
-- replays = "Replays of these kernels."
-- dur_ns = "Durations of the kernel in all replays, added up."
-- op = "Name of the innermost op that ran at its launch in the capture; NULL where none did, or where it is not known."
-- shapes = "Sizes of what the op takes, as recorded."
-- types = "Types of what the op takes, as recorded."
-- module = "The nn.Modules around the launch, outermost first, joined by /."
-- capture_run = "The run of the capture."
-- capture = "Name of the innermost range around the capture, else its number within the run."
-- agreement_ratio = "agreeing_kernels / most_kernels."
-- agreeing_kernels = "Kernels of the graph with the name of the launch at the same place of the capture."
-- most_kernels = "Kernels of the graph, or of the capture if those are more."
-- equal_captures = "Captures that agree equally well, in names and grids: of these the shapes may differ."
-- reason = "Why no op is given."
-- ///
with recursive graph_calls as materialized (
    select row_number() over () as launch, run, source, rank, pid, correlation
    from (
        select run, source, rank, pid, correlation
        from api_calls
        where
            name like '%GraphLaunch%' and correlation is not null and api in ('runtime', 'driver')
            and matches(run, $run) and matches(rank, $rank)
        group by run, source, rank, pid, correlation
    )
),
executions as not materialized (
    select
        run, source, rank, pid, device, correlation, graph, graph_node, name, start_ns, end_ns, stream,
        grid_x, grid_y, grid_z, dur_ns
    from kernels
    where matches(run, $run) and matches(rank, $rank) and matches(device, $device)
),
kinds as materialized (  -- a million kernels have some hundred, and a number takes less memory than their columns
    select
        (row_number() over (order by name, grid_x, grid_y, grid_z))::integer as kind, name, grid_x, grid_y, grid_z,
        format('[{},{},{}]', grid_x, grid_y, grid_z) as grid
    from (
        select name, grid_x, grid_y, grid_z
        from executions
        group by name, grid_x, grid_y, grid_z
        having count(*) > 0  -- always so; but DuckDB then takes the kinds for few
    )
),
nodes as not materialized (
    select
        c.launch, e.device, e.graph, e.graph_node, e.start_ns, e.end_ns, e.stream, k.kind,
        case when has_valid_interval(e.start_ns, e.end_ns) then e.dur_ns else 0 end as dur_ns
    from executions as e
    join graph_calls as c
        on e.run = c.run and e.source = c.source and e.rank = c.rank and e.pid is not distinct from c.pid
        and e.correlation = c.correlation
    join kinds as k
        on e.name is not distinct from k.name and e.grid_x is not distinct from k.grid_x
        and e.grid_y is not distinct from k.grid_y and e.grid_z is not distinct from k.grid_z
),
replays as materialized (
    select c.run, c.rank, n.device, n.graph, n.items, list_transform(n.items, lambda item: item.kind) as kinds
    from (
        select
            launch, device,
            any_value(graph) as graph,
            list({'kind': kind, 'dur_ns': dur_ns} order by graph_node, start_ns, end_ns, stream) as items
        from nodes
        group by launch, device
    ) as n
    join graph_calls as c using (launch)
),
sequences as materialized (
    select (row_number() over (order by run, kinds))::integer as sequence, run, kinds, len(kinds) as size
    from (select distinct run, kinds from replays)
),
sequence_nodes as materialized (
    select s.sequence, s.place, k.name, k.grid
    from (select sequence, unnest(kinds) as kind, generate_subscripts(kinds, 1) as place from sequences) as s
    join kinds as k using (kind)
),
edges as (
    select
        run, source, pid, tid, start_ns, name like '%BeginCapture%' as begins,
        lead(start_ns) over thread as next_ns,
        lead(name like '%EndCapture%') over thread as ends
    from api_calls
    where
        (name like '%StreamBeginCapture%' or name like '%StreamEndCapture%') and start_ns is not null
        and matches(run, $capture_run) and exists (from replays)
    window thread as (partition by run, source, pid, tid order by start_ns)
),
captures as materialized (
    select
        row_number() over (order by run, source, pid, start_ns) as id,
        row_number() over (partition by run order by source, pid, start_ns) as number,
        run, source, pid, tid, start_ns, next_ns as end_ns
    from edges
    where begins and ends
),
launches as materialized (
    select
        row_number() over () as id, c.id as capture, a.run, a.source, a.pid, a.tid,
        a.start_ns as at_ns,
        json_extract_string(a.args, '$.kernel') as name,
        json_extract_string(a.args, '$.grid') as grid,
        row_number() over (partition by c.id order by a.start_ns) as place
    from (
        select run, source, pid, tid, start_ns, args
        from api_calls
        where args like '%"kernel"%' and start_ns is not null and matches(run, $capture_run) and exists (from captures)
    ) as a
    asof join captures as c
        on a.run = c.run and a.source = c.source and a.pid is not distinct from c.pid and a.tid is not distinct from c.tid
        and a.start_ns >= c.start_ns
    where a.start_ns < c.end_ns
),
compared as (
    select
        s.sequence, l.capture,
        count(*) filter (s.name = l.name) as agreeing,
        count(*) filter (s.name = l.name and s.grid = l.grid) as agreeing_grids
    from sequence_nodes as s
    join launches as l on s.place = l.place
    group by s.sequence, l.capture
),
rated as (
    select
        c.sequence, c.capture, c.agreeing, c.agreeing_grids,
        l.run = s.run as is_own,
        greatest(s.size, l.size) as most,
        c.agreeing / most as agreement
    from compared as c
    join sequences as s using (sequence)
    join (select capture, run, count(*) as size from launches group by capture, run) as l using (capture)
),
best as materialized (
    select
        sequence, capture, agreeing, most, agreement,
        count(*) over (partition by sequence, agreement, agreeing_grids) as equal_captures
    from rated
    qualify row_number() over (partition by sequence order by agreement desc, agreeing_grids desc, is_own desc, capture) = 1
),
points as materialized (
    select id, capture, place, name, run, source, pid, tid, at_ns
    from launches
    where capture in (select capture from best where agreement >= $min_agreement)
),
host_ops as materialized (
    select row_number() over () as id, run, source, pid, tid, name, start_ns, end_ns, input_shapes, input_types
    from ops
    where run in (select run from points)
),
found_ops as (
    select i.id, o.name as op, o.input_shapes as shapes, o.input_types as types
    from innermost('host_ops', 'points') as i
    join host_ops as o on i.parent = o.id
),
frames as materialized (
    select row_number() over () as id, run, source, pid, tid, substr(name, 12) as name, start_ns, end_ns
    from python_frames
    where starts_with(name, 'nn.Module: ') and run in (select run from points)
),
parents as materialized (
    select id, parent from nesting('frames')
),
found_frames as materialized (
    select id, parent as frame from innermost('frames', 'points')
),
chains(id, frame, module) as (
    select i.id, i.frame, f.name
    from found_frames as i
    join frames as f on i.frame = f.id
    union all
    select c.id, p.parent, f.name || '/' || c.module
    from chains as c
    join parents as p on c.frame = p.id
    join frames as f on p.parent = f.id
),
found_modules as (
    select id, max_by(module, len(module)) as module from chains group by id
),
ranges as materialized (
    select row_number() over () as id, run, source, pid, tid, name, start_ns, end_ns
    from annotations
    where scope = 'cpu' and run in (select run from captures)
),
starts as materialized (
    select id, run, source, pid, tid, start_ns as at_ns from captures
),
named_captures as (
    select c.id, c.run, coalesce(r.name, c.number::varchar) as name
    from captures as c
    left join innermost('ranges', 'starts') as i on c.id = i.id
    left join ranges as r on i.parent = r.id
),
known as (
    select p.capture, p.place, p.name, o.op, o.shapes, o.types, m.module
    from points as p
    left join found_ops as o using (id)
    left join found_modules as m using (id)
),
timed as (
    select
        r.run, r.rank, r.device, r.graph, s.sequence,
        unnest(r.items).dur_ns as dur_ns,
        generate_subscripts(r.items, 1) as place
    from replays as r
    join sequences as s on r.run = s.run and r.kinds = s.kinds
),
summed as (
    select t.run, t.rank, t.device, t.graph, t.sequence, t.place, n.name as kernel, t.replays, t.dur_ns
    from (
        select run, rank, device, graph, sequence, place, count(*) as replays, sum(dur_ns) as dur_ns
        from timed
        group by run, rank, device, graph, sequence, place
    ) as t
    join sequence_nodes as n using (sequence, place)
)
select
    s.run, s.rank, s.device, s.graph,
    dense_rank() over (partition by s.run order by s.sequence) as replay_group,
    s.place, s.kernel, s.replays,
    as_bigint(s.dur_ns) as dur_ns,
    k.op, k.shapes, k.types, k.module,
    c.run as capture_run,
    c.name as capture,
    b.agreement as agreement_ratio,
    b.agreeing as agreeing_kernels,
    b.most as most_kernels,
    b.equal_captures,
    case
        when b.sequence is null then 'no capture in the store names its kernels; ingest the trace of the capture, too'
        when b.agreement < $min_agreement
            then format('only {} of {} kernels have the name of the launch at their place in the capture', b.agreeing, b.most)
        when k.name is null then 'the launch at this place of the capture has another name'
    end as reason
from summed as s
left join best as b using (sequence)
left join named_captures as c on b.capture = c.id
left join known as k on b.capture = k.capture and s.place = k.place and s.kernel = k.name
order by s.run, s.rank, s.device, s.graph, replay_group, s.place
