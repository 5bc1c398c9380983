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
-- show = ["run", "rank", "graph", "place", "kernel", "replays", "dur_ns", "op", "agreement_ratio", "reason"]
-- hints = [
--     { when = "not exists (from api_calls where name like '%GraphLaunch%' and matches(run, $run))", text = "no launch of a CUDA graph is recorded; capture one (torch.cuda.graph, mode=\"reduce-overhead\" of torch.compile)", empty = true },
-- ]
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
with recursive replayed as materialized (
    from graph_replays_of($run, $rank, $device, $capture_run)
),
sequences as materialized (
    select
        sequence,
        any_value(run) as run, any_value(places) as places,
        any_value(agreement) as agreement, any_value(agreeing) as agreeing, any_value(most) as most,
        any_value(equal_captures) as equal_captures, any_value(capture) as capture, any_value(capture_number) as capture_number,
        any_value(capture_run) as capture_run, any_value(capture_source) as capture_source,
        any_value(capture_pid) as capture_pid, any_value(capture_tid) as capture_tid, any_value(begin_ns) as begin_ns
    from replayed
    group by sequence
),
places as materialized (
    select row_number() over () as id, *
    from (
        select
            sequence, capture_run as run, capture_source as source, capture_pid as pid, capture_tid as tid,
            unnest(places, recursive := true),
            agreement >= $min_agreement as is_accepted
        from sequences
    )
),
points as materialized (
    select id, run, source, pid, tid, at_ns from places where is_accepted and kernel = launched
),
host_ops as materialized (
    select row_number() over () as id, run, source, pid, tid, name, start_ns, end_ns, input_shapes, input_types
    from unscoped_ops
    where run in (select run from points)
),
found_ops as (
    select i.id, o.name as op, o.input_shapes as shapes, o.input_types as types
    from innermost('host_ops', 'points') as i
    join host_ops as o on i.parent = o.id
),
frames as materialized (
    select row_number() over () as id, run, source, pid, tid, substr(name, 12) as name, start_ns, end_ns
    from unscoped_python_frames
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
    from unscoped_annotations
    where scope = 'cpu' and run in (select capture_run from sequences)
),
starts as materialized (
    select distinct capture as id, capture_run as run, capture_source as source, capture_pid as pid, capture_tid as tid, begin_ns as at_ns
    from sequences
    where capture is not null
),
capture_names as (
    select i.id, r.name
    from innermost('ranges', 'starts') as i
    join ranges as r on i.parent = r.id
),
timed as (
    select run, rank, device, graph, sequence, unnest(durations) as dur_ns, generate_subscripts(durations, 1) as place
    from replayed
),
summed as (
    select run, rank, device, graph, sequence, place, count(*) as replays, sum(dur_ns) as dur_ns
    from timed
    group by run, rank, device, graph, sequence, place
)
select
    t.run, t.rank, t.device, t.graph,
    dense_rank() over (partition by t.run order by t.sequence) as replay_group,
    t.place, p.kernel, t.replays,
    as_bigint(t.dur_ns) as dur_ns,
    o.op, o.shapes, o.types, m.module,
    s.capture_run,
    case when s.capture is not null then coalesce(c.name, s.capture_number::varchar) end as capture,
    s.agreement as agreement_ratio,
    s.agreeing as agreeing_kernels,
    s.most as most_kernels,
    s.equal_captures,
    case
        when s.agreement is null and exists (
            from unscoped_api_calls where name like '%StreamBeginCapture%' and matches(run, $capture_run)
        )
            then 'the captures in the store do not name their kernels: the profiler names them on HIP, not on CUDA'
        when s.agreement is null then 'no capture in the store names its kernels; ingest the trace of the capture, too'
        when s.agreement < $min_agreement
            then format('only {} of {} kernels have the name of the launch at their place in the capture', s.agreeing, s.most)
        when p.kernel is distinct from p.launched then 'the launch at this place of the capture has another name'
    end as reason
from summed as t
join sequences as s using (sequence)
join places as p on t.sequence = p.sequence and t.place = p.place
left join capture_names as c on s.capture = c.id
left join found_ops as o on p.id = o.id
left join found_modules as m on p.id = m.id
order by t.run, t.rank, t.device, t.graph, replay_group, t.place
