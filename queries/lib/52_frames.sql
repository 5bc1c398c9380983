-- Python frames: the modules and the lines of the program that ops belong to.

-- module_frames(of_run, of_rank): forward passes of nn.Modules, numbered, named without prefix.
create or replace macro module_frames(of_run, of_rank) as table
select
    row_number() over () as id, run, source, rank, pid, tid, substr(name, 12) as name,
    regexp_replace(substr(name, 12), '_\d+$', '') as class, start_ns, end_ns
from python_frames
where matches(run, of_run) and matches(rank, of_rank) and starts_with(name, 'nn.Module: ') and has_valid_interval(start_ns, end_ns);

-- module_places(frames): the place of each of module_frames() in the tree of modules, `path`: names from the outermost one to
-- itself. A module that is called within others at one place only is there, too, where nothing is around it: recomputed.
create or replace macro module_places(frames) as table
with recursive _module_nest as materialized (
    select id, parent, depth from nesting(frames)
),
_called_places(id, path, depth) as (
    select n.id, [f.name], 1
    from _module_nest as n
    join query_table(frames) as f on n.id = f.id
    where n.parent is null
    union all
    select n.id, list_append(p.path, f.name), p.depth + 1
    from _called_places as p
    join _module_nest as n on n.parent = p.id
    join query_table(frames) as f on n.id = f.id
    where n.depth = p.depth + 1
),
_homes as (
    select f.run, f.rank, f.name, any_value(p.path) as path
    from _called_places as p
    join query_table(frames) as f on p.id = f.id
    where p.depth > 1
    group by f.run, f.rank, f.name
    having min(p.path) = max(p.path)
)
select p.id, case when h.path is null then p.path else list_concat(h.path, p.path[2:]) end as path
from _called_places as p
join query_table(frames) as f on p.id = f.id
left join _homes as h on f.run = h.run and f.rank = h.rank and p.path[1] = h.name;

-- program_frames(of_run, of_rank): Python frames of the program, numbered: neither of torch nor of Python's own modules.
create or replace macro program_frames(of_run, of_rank) as table
select row_number() over () as id, run, source, rank, pid, tid, name, start_ns, end_ns
from python_frames
where matches(run, of_run) and matches(rank, of_rank)
    and regexp_matches(name, '\(\d+\): ')
    and not regexp_matches(name, '^<|(^|/)(torch|triton|_?distutils|concurrent|asyncio|importlib|multiprocessing)/')
    and not regexp_matches(name, '(^|/)(threading|contextlib|functools|runpy|inspect|typing|queue|weakref|abc|enum|copy)\.py\(');

-- frame_stacks(frames, wanted, most): each of the frames that are a `frame` of `wanted`, with those around it, the innermost first,
-- at most so many, as one text.
create or replace macro frame_stacks(frames, wanted, most) as table
with recursive _frame_nest as materialized (
    select n.id, n.parent, f.name from nesting(frames) as n join query_table(frames) as f on n.id = f.id
),
_longer(id, top, stack, depth) as (
    select id, parent, name, 1 from _frame_nest where id in (select frame from query_table(wanted))
    union all
    select s.id, n.parent, s.stack || ' < ' || n.name, s.depth + 1
    from _longer as s
    join _frame_nest as n on s.top = n.id
    where s.depth < most
)
select id, arg_max(stack, depth) as stack from _longer group by id;

-- point_frames(points, ops, frames): the innermost of the frames around each point (run, source, pid, tid, id, at_ns). A point in
-- an op of the backward pass (of filtered_ops()) with no frame inside of that op has the frame of the forward op.
create or replace macro point_frames(points, ops, frames) as table
with _backward_ops as materialized (
    select id, run, source, pid, tid, start_ns, end_ns from query_table(ops) where is_backward and sequence_number is not null
),
_forward_starts as materialized (
    select b.id, f.run, f.source, f.pid, f.tid, f.start_ns as at_ns
    from forward_ops(ops) as b
    join query_table(ops) as f on b.forward = f.id
)
select
    p.id,
    case when b.id is null or f.start_ns >= b.start_ns then f.id else coalesce(r.parent, f.id) end as frame
from query_table(points) as p
left join innermost(frames, points) as i on p.id = i.id
left join query_table(frames) as f on i.parent = f.id
left join innermost('_backward_ops', points) as j on p.id = j.id
left join _backward_ops as b on j.parent = b.id
left join innermost(frames, '_forward_starts') as r on b.id = r.id
where f.id is not null or r.parent is not null;

-- op_frames(ops, frames): the frame of each of filtered_ops(), that of point_frames() at its start.
create or replace macro op_frames(ops, frames) as table
with _op_starts as (
    select id, run, source, pid, tid, start_ns as at_ns from query_table(ops)
)
from point_frames('_op_starts', ops, frames);
