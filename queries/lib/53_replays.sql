-- Replays of CUDA and HIP graphs, and the captures that their kernels come from.

-- graph_captures(of_run): what threads do between the calls that begin and end the capture of a graph. A row is one capture: run,
-- source, pid, tid, start_ns, end_ns, a number of its own, `id`, and its number within the run.
create or replace macro graph_captures(of_run) as table
with _edges as (
    select
        run, source, pid, tid, start_ns, name like '%BeginCapture%' as begins,
        lead(start_ns) over thread as next_ns,
        lead(name like '%EndCapture%') over thread as ends
    from unscoped_api_calls
    where
        (name like '%StreamBeginCapture%' or name like '%StreamEndCapture%') and start_ns is not null
        and matches(run, of_run)
    window thread as (partition by run, source, pid, tid order by start_ns)
)
select
    row_number() over (order by run, source, pid, start_ns) as id,
    row_number() over (partition by run order by source, pid, start_ns) as number,
    run, source, pid, tid, start_ns, next_ns as end_ns
from _edges
where begins and ends;

-- graph_replays_of(of_run, of_rank, of_device, of_capture_run): each replay of a graph on a device, with the capture whose launches
-- have the same names in the same order: of several the one counts of which most names agree, then most grids, then one of
-- the same run, then the first. A row is one launch of a graph (run, source, rank, pid, correlation) and device, with the
-- `durations` of its kernels in the order of the graph. Rows with the same kernels in order have one `sequence`, and `places`:
-- of each kernel its name, and name and time of the launch at the same place of the capture. `agreement` is the share of
-- names that agree. A capture is what a thread (capture_run, capture_source, capture_pid, capture_tid) launches between the
-- calls that begin and end it (begin_ns, end_ns); its launches have names where the profiler records them with the call.
create or replace macro graph_replays_of(of_run, of_rank, of_device, of_capture_run) as table
with _graph_calls as materialized (
    select row_number() over () as launch, run, source, rank, pid, correlation
    from (
        select run, source, rank, pid, correlation
        from api_calls
        where
            name like '%GraphLaunch%' and correlation is not null and api in ('runtime', 'driver')
            and matches(run, of_run) and matches(rank, of_rank)
        group by run, source, rank, pid, correlation
    )
),
_replay_executions as not materialized (
    select
        run, source, rank, pid, device, correlation, graph, graph_node, name, start_ns, end_ns, stream,
        grid_x, grid_y, grid_z, dur_ns
    from kernels
    where
        matches(run, of_run) and matches(rank, of_rank) and matches(device, of_device)
        and correlation in (select correlation from _graph_calls)
),
_replay_kinds as materialized (  -- a million kernels have some hundred, and a number takes less memory than their columns
    select
        (row_number() over (order by name, grid_x, grid_y, grid_z))::integer as kind, name, grid_x, grid_y, grid_z,
        format('[{},{},{}]', grid_x, grid_y, grid_z) as grid
    from (
        select name, grid_x, grid_y, grid_z
        from _replay_executions
        group by name, grid_x, grid_y, grid_z
        having count(*) > 0  -- always so; but DuckDB then takes the kinds for few
    )
),
_replay_nodes as not materialized (
    select
        c.launch, e.device, e.graph, e.graph_node, e.start_ns, e.end_ns, e.stream, k.kind,
        case when has_valid_interval(e.start_ns, e.end_ns) then e.dur_ns else 0 end as dur_ns
    from _replay_executions as e
    join _graph_calls as c
        on e.run = c.run and e.source = c.source and e.rank = c.rank and e.pid is not distinct from c.pid
        and e.correlation = c.correlation
    join _replay_kinds as k
        on e.name is not distinct from k.name and e.grid_x is not distinct from k.grid_x
        and e.grid_y is not distinct from k.grid_y and e.grid_z is not distinct from k.grid_z
),
_replays as materialized (
    select
        c.* exclude (launch), n.device, n.graph,
        list_transform(n.items, lambda item: item.kind) as kinds,
        list_transform(n.items, lambda item: item.dur_ns) as durations
    from (
        select
            launch, device,
            any_value(graph) as graph,
            list({'kind': kind, 'dur_ns': dur_ns} order by graph_node, start_ns, end_ns, stream) as items
        from _replay_nodes
        group by launch, device
    ) as n
    join _graph_calls as c using (launch)
),
_replay_sequences as materialized (
    select (row_number() over (order by run, kinds))::integer as sequence, run, kinds, len(kinds) as size
    from (select distinct run, kinds from _replays)
),
_replay_sequence_nodes as materialized (
    select s.sequence, s.place, k.name, k.grid
    from (select sequence, unnest(kinds) as kind, generate_subscripts(kinds, 1) as place from _replay_sequences) as s
    join _replay_kinds as k using (kind)
),
_replay_captures as materialized (
    from graph_captures(of_capture_run) where exists (from _replays)
),
_replay_launches as materialized (
    select
        row_number() over () as id, c.id as capture, a.run, a.source, a.pid, a.tid,
        a.start_ns as at_ns,
        json_extract_string(a.args, '$.kernel') as name,
        json_extract_string(a.args, '$.grid') as grid,
        row_number() over (partition by c.id order by a.start_ns) as place
    from (
        select run, source, pid, tid, start_ns, args
        from unscoped_api_calls
        where args like '%"kernel"%' and start_ns is not null and matches(run, of_capture_run) and exists (from _replay_captures)
    ) as a
    asof join _replay_captures as c
        on a.run = c.run and a.source = c.source and a.pid is not distinct from c.pid and a.tid is not distinct from c.tid
        and a.start_ns >= c.start_ns
    where a.start_ns < c.end_ns
),
_replay_compared as (
    select
        s.sequence, l.capture,
        count(*) filter (s.name = l.name) as agreeing,
        count(*) filter (s.name = l.name and s.grid = l.grid) as agreeing_grids
    from _replay_sequence_nodes as s
    join _replay_launches as l on s.place = l.place
    group by s.sequence, l.capture
),
_replay_rated as (
    select
        c.sequence, c.capture, c.agreeing, c.agreeing_grids,
        l.run = s.run as is_own,
        greatest(s.size, l.size) as most,
        c.agreeing / most as agreement
    from _replay_compared as c
    join _replay_sequences as s using (sequence)
    join (select capture, run, count(*) as size from _replay_launches group by capture, run) as l using (capture)
),
_replay_best as materialized (
    select
        sequence, capture, agreeing, most, agreement,
        count(*) over (partition by sequence, agreement, agreeing_grids) as equal_captures
    from _replay_rated
    qualify row_number() over (partition by sequence order by agreement desc, agreeing_grids desc, is_own desc, capture) = 1
),
_replay_places as (
    select
        n.sequence,
        list({'place': n.place, 'kernel': n.name, 'launched': l.name, 'at_ns': l.at_ns} order by n.place) as places
    from _replay_sequence_nodes as n
    left join _replay_best as b using (sequence)
    left join _replay_launches as l on b.capture = l.capture and n.place = l.place
    group by n.sequence
)
select
    r.* exclude (kinds), s.sequence, p.places,
    b.agreement, b.agreeing, b.most, b.equal_captures,
    c.id as capture, c.number as capture_number, c.run as capture_run, c.source as capture_source, c.pid as capture_pid,
    c.tid as capture_tid, c.start_ns as begin_ns, c.end_ns
from _replays as r
join _replay_sequences as s on r.run = s.run and r.kinds = s.kinds
join _replay_places as p using (sequence)
left join _replay_best as b using (sequence)
left join _replay_captures as c on b.capture = c.id;

-- known_replays(of_run, of_rank, of_capture_run): those of graph_replays_of() whose kernels are named as the launches of a capture, 95 %
-- or more of them. Without of_capture_run a session of one run has the captures of that run alone.
create or replace macro known_replays(of_run, of_rank, of_capture_run) as table
from graph_replays_of(of_run, of_rank, null, of_capture_run) where agreement >= 0.95;

-- replayed_points(activity, replays): of filtered_activity() each kernel of known_replays(), where and when the capture launched it, if
-- that launch has its name: id, run, source, pid, tid, at_ns, the last five of the capture.
create or replace macro replayed_points(activity, replays) as table
with _replayed_places as (
    select
        a.id, r.capture_run, r.capture_source, r.capture_pid, r.capture_tid,
        r.places[row_number() over (
            partition by a.run, a.source, a.rank, a.pid, a.correlation, a.device
            order by a.graph_node, a.start_ns, a.end_ns, a.stream
        )] as place
    from query_table(activity) as a
    join query_table(replays) as r
        on a.run = r.run and a.source = r.source and a.rank = r.rank and a.pid is not distinct from r.pid
        and a.correlation = r.correlation and a.device is not distinct from r.device
    where a.kind = 'kernel'
)
select
    id, capture_run as run, capture_source as source, capture_pid as pid, capture_tid as tid, place.at_ns as at_ns
from _replayed_places
where place.kernel = place.launched;

-- linked_points(activity, calls, ops, replays): launch_points() of filtered_activity(); kernels of known_replays() count where their
-- capture launched them, among surrounding_ops().
create or replace macro linked_points(activity, calls, ops, replays) as table
with _replayed as materialized (
    from replayed_points(activity, replays)
)
select id, run, source, pid, tid, at_ns, op
from launch_points(activity, calls, ops)
anti join _replayed using (id)
union all
select id, run, source, pid, tid, at_ns, null from _replayed;

-- naming_modules(of_run, of_rank, replays): forward passes of nn.Modules among naming_frames(), with the columns of
-- module_frames().
create or replace macro naming_modules(of_run, of_rank, replays) as table
select
    run, source, rank, pid, tid, false as is_path, [substr(name, 12)] as names, start_ns, end_ns,
    module_class(substr(name, 12)) as class
from naming_frames(of_run, of_rank, replays)
where starts_with(name, 'nn.Module: ') and has_valid_interval(start_ns, end_ns);

-- replay_units(replayed): replays of graph_replays_of() with one sequence on one device, as if they were a run, `unit`, that launches what
-- its capture does, when that did. A row is one unit, whose run has `replays` of it.
create or replace macro replay_units(replayed) as table
select
    chr(1) || row_number() over () as unit, run, rank, device, count(*) as replays,
    any_value(places) as places, list(durations) as durations,
    any_value(capture_run) as capture_run, any_value(capture_source) as source, any_value(capture_pid) as pid,
    any_value(capture_tid) as tid, any_value(begin_ns) as begin_ns, any_value(end_ns) as end_ns
from query_table(replayed)
group by run, rank, device, sequence;

-- replayed_kernels(units): the kernels of replay_units(), each with its time in all replays and the launch in the capture, if that has
-- its name. A row is one place of a unit, its `run`; ids are below 0.
create or replace macro replayed_kernels(units) as table
with _times as (
    select unit, place, sum(dur_ns) as dur_ns
    from (
        select unit, unnest(each) as dur_ns, generate_subscripts(each, 1) as place
        from (select unit, unnest(durations) as each from query_table(units))
    )
    group by unit, place
)
select
    -row_number() over () as id, u.unit as run, u.source, u.rank, u.pid, u.tid, u.device, p.place as correlation,
    p.kernel as name, 'kernel' as kind, coalesce(p.at_ns, 0) as start_ns, t.dur_ns as gpu_ns,
    case when p.kernel = p.launched then p.at_ns end as launch_ns
from query_table(units) as u
cross join lateral (select unnest(u.places, recursive := true)) as p
join _times as t on u.unit = t.unit and p.place = t.place;

-- replayed_ops(units): the ops of the captures of replay_units(), as if they were of the units.
create or replace macro replayed_ops(units) as table
select
    u.unit as run, o.source, u.rank, o.pid, o.tid, o.name, o.start_ns, o.end_ns, null::bigint as external_id,
    o.input_shapes, o.input_types, o.args
from unscoped_ops as o
join query_table(units) as u
    on o.run = u.capture_run and o.source = u.source and o.pid is not distinct from u.pid and o.tid is not distinct from u.tid
    and o.start_ns < u.end_ns and o.end_ns > u.begin_ns;

-- all_op_costs(executions, activity, calls, replays): op_costs(), with the kernels of known_replays() as of the ops of their captures:
-- `is_replayed`; `calls` are then those in the capture times the replays. A replayed kernel counts where one of its name is among
-- the activity, which also has kind and name.
create or replace macro all_op_costs(executions, activity, calls, replays) as table
with _units as materialized (
    from replay_units(replays)
),
_unit_kernels as materialized (
    from replayed_kernels('_units') where name in (select name from query_table(activity))
),
_unit_ops as materialized (
    from replayed_ops('_units')
),
_all_executions as not materialized (
    select run, source, rank, pid, tid, name, start_ns, end_ns, external_id, input_shapes, input_types, args
    from query_table(executions)
    union all by name
    from _unit_ops
),
_all_activity as not materialized (  -- each use reads only its own columns
    select id, run, source, rank, pid, device, name, kind, correlation, external_id, start_ns, gpu_ns
    from query_table(activity) as a
    where kind <> 'kernel' or not exists (
        from query_table(replays) as r
        where a.run = r.run and a.source = r.source and a.pid is not distinct from r.pid and a.correlation = r.correlation
    )
    union all by name
    select * exclude (tid, launch_ns) from _unit_kernels
),
_all_calls as not materialized (
    select run, source, pid, tid, correlation, start_ns, end_ns from query_table(calls)
    union all
    select run, source, pid, tid, correlation, launch_ns, launch_ns from _unit_kernels where launch_ns is not null
)
select
    coalesce(u.run, c.run) as run, c.rank, c.device, c.op, c.shapes, c.types, c.formula, c.kind, c.precision, c.flop,
    c.least_bytes, u.unit is not null as is_replayed,
    sum(c.calls * coalesce(u.replays, 1)) as calls,
    sum(case when u.unit is null then c.op_ns else 0 end) as op_ns,
    sum(c.gpu_ns) as gpu_ns,
    sum(case when u.unit is null then c.busy_ns else c.gpu_ns end) as busy_ns,
    sum(c.gpu_rows * coalesce(u.replays, 1)) as gpu_rows,
    coalesce(sum(c.bus_ns) * 2 > sum(c.gpu_ns), false) as is_bus_copy
from op_costs('_all_executions', '_all_activity', '_all_calls') as c
left join _units as u on c.run = u.unit
where u.unit is null or c.gpu_rows > 0
group by all;

-- misses_captures(of_run, of_rank, of_capture_run): whether these runs and ranks launch graphs, and no run that is read captured one.
create or replace macro misses_captures(of_run, of_rank, of_capture_run) as
    exists (from api_calls where name like '%GraphLaunch%' and matches(run, of_run) and matches(rank, of_rank))
    and not exists (from unscoped_api_calls where name like '%StreamBeginCapture%' and matches(run, of_capture_run));
