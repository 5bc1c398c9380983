-- Python frames and NVTX ranges: the modules and the lines of the program that ops belong to.

-- without_number(name): the name of a module or a range without its number: Linear_3, model.layers.3, block 3, Conv2d(3).
create or replace macro without_number(name) as regexp_replace(name, '([ ._#-]+\d+|\(\d+\))$', '');

-- module_class(name): the last part of it: of model.layers.3 layers.
create or replace macro module_class(name) as coalesce(nullif(regexp_extract(without_number(name), '[^.]*$'), ''), name);

-- is_optimizer_step(name): whether a range is a step of an optimizer, as PyTorch names it, or a program under nsys.
create or replace macro is_optimizer_step(name) as regexp_matches(name, '(?i)^optimi[sz]er([._ ]?step|$)');

-- nvtx_ranges(of_run, of_rank): ranges that the threads of a program push under nsys, but those of libraries, which have domains of
-- their own. In a scope of executions those outside of it name rows that they launch, and are not listed.
create or replace macro nvtx_ranges(of_run, of_rank) as table
select run, source, rank, pid, tid, name, scope, start_ns, end_ns, is_listed
from (
    select *, true as is_listed from annotations
    union all
    select *, false from around_annotations
)
where
    args like '%"push_pop"%' and domain is null and scope = 'cpu' and matches(run, of_run) and matches(rank, of_rank)
    and has_valid_interval(start_ns, end_ns);

-- is_backward_node(name): whether an op is a call of autograd's engine, or a node of its graph: old torch records
-- these alone.
create or replace macro is_backward_node(name) as
    starts_with(name, 'autograd::engine::evaluate_function') or name = 'torch::autograd::AccumulateGrad'
    or contains(name, 'Backward') and regexp_matches(name, 'Backward\d*$');

-- nvtx_ops(of_run, of_rank): ops among nvtx_ranges(), as torch.autograd.profiler.emit_nvtx() and nsys --pytorch=autograd-nvtx push
-- them, with the columns of filtered_ops(): aten::mm, seq = 4, op_id = 7.
create or replace macro nvtx_ops(of_run, of_rank) as table
select
    row_number() over () as id, run, source, rank, pid, tid, regexp_extract(name, '^(.*?)(, (seq|op_id) = |$)', 1) as op, start_ns, end_ns,
    null::bigint as external_id,
    try_cast(regexp_extract(name, ', seq = (\d+)', 1) as bigint) as sequence_number,
    is_backward_node(op) as is_backward
from nvtx_ranges(of_run, of_rank)
where regexp_matches(name, ', (seq|op_id) = \d');

-- nvtx_modules(of_run, of_rank): the ranges among nvtx_ranges() that name modules: those that name neither an op or a function (with ::)
-- nor a step of the program or the optimizer. `names` are the modules of a range: one, as a program names it; of vLLM its path, of DLProf all around it, then
-- `is_path`. A name whose number is always that of the step around it has no number.
create or replace macro nvtx_modules(of_run, of_rank) as table
with _nvtx as materialized (
    from nvtx_ranges(of_run, of_rank)
),
_nvtx_steps as materialized (
    from steps_of('_nvtx', '(?i)^(profiler)?step\s*#?\s*\d+$')
),
_nvtx_named as (
    select
        * exclude (scope),
        regexp_extract_all(name, '/([^/]+::_call_impl(?:\(\d+\))?)', 1) as callers,
        regexp_extract(name, '^\{.Module.: .([^'']+)', 1) as module
    from _nvtx
    where not regexp_matches(name, '(?i)^(profiler)?step\s*#?\s*\d+$|, (seq|op_id) = \d') and not is_optimizer_step(name)
),
_nvtx_chosen as (
    select
        n.* exclude (callers, module), len(n.callers) > 0 as is_path,
        case
            when is_path then list_transform(n.callers, lambda caller: replace(caller, '::_call_impl', ''))
            when n.module <> '' then [n.module]
            else [n.name]
        end as names,
        not is_path and min(s.step) over alike <> max(s.step) over alike
            and bool_and(coalesce(try_cast(regexp_extract(n.name, '(\d+)$', 1) as bigint) = s.step, false)) over alike as has_step
    from _nvtx_named as n
    asof left join _nvtx_steps as s
        on n.run = s.run and n.source = s.source and n.rank = s.rank and n.pid is not distinct from s.pid and n.start_ns >= s.start_ns
    where len(n.callers) > 0 or n.module <> '' or not regexp_matches(n.name, '::|^\{')
    window alike as (partition by n.run, n.rank, without_number(n.name))
)
select
    run, source, rank, pid, tid, is_path, case when has_step then [without_number(names[1])] else names end as names, start_ns, end_ns,
    is_listed
from _nvtx_chosen;

-- module_frames(of_run, of_rank): forward passes of nn.Modules, numbered, named without prefix, and nvtx_modules().
create or replace macro module_frames(of_run, of_rank) as table
select row_number() over () as id, *, module_class(names[-1]) as class
from (
    select run, source, rank, pid, tid, false as is_path, [substr(name, 12)] as names, start_ns, end_ns, true as is_listed
    from python_frames
    where
        matches(run, of_run) and matches(rank, of_rank) and starts_with(name, 'nn.Module: ')
        and has_valid_interval(start_ns, end_ns)
    union all by name
    from nvtx_modules(of_run, of_rank)
);

-- module_places(frames): the place of each of module_frames() in the tree of modules, `path`: names from the outermost one to
-- itself, without what repeats the one around it (layers.0 in model). A module that is called within others at one place only
-- is there, too, where nothing is around it: recomputed. `is_inner` is a frame within another one of its place.
create or replace macro module_places(frames) as table
with recursive _module_nest as materialized (
    select id, parent, depth from nesting(frames)
),
_called_places(id, names, path, depth, is_inner) as (
    select n.id, f.names, f.names, 1, false
    from _module_nest as n
    join query_table(frames) as f on n.id = f.id
    where n.parent is null
    union all
    select
        n.id, f.names,
        case
            when f.is_path then f.names
            when starts_with(f.names[1], p.names[-1] || '.') then list_append(p.path, substr(f.names[1], len(p.names[-1]) + 2))
            else list_concat(p.path, f.names)
        end as longer,
        p.depth + 1,
        p.path = longer
    from _called_places as p
    join _module_nest as n on n.parent = p.id
    join query_table(frames) as f on n.id = f.id
    where n.depth = p.depth + 1
),
_homes as (
    select f.run, f.rank, f.names, any_value(p.path) as path
    from _called_places as p
    join query_table(frames) as f on p.id = f.id
    where p.depth > 1 and not f.is_path
    group by f.run, f.rank, f.names
    having min(p.path) = max(p.path)
)
select p.id, case when h.path is null then p.path else list_concat(h.path, p.path[2:]) end as path, p.is_inner
from _called_places as p
join query_table(frames) as f on p.id = f.id
left join _homes as h on f.run = h.run and f.rank = h.rank and p.path[:1] = h.names;

-- is_program_frame(name): whether a Python frame is one of the program: neither of torch nor of Python's own modules.
create or replace macro is_program_frame(name) as
    regexp_matches(name, '\(\d+\): ')
    and not regexp_matches(name, '^<|(^|/)(torch|triton|_?distutils|concurrent|asyncio|importlib|multiprocessing)/')
    and not regexp_matches(name, '(^|/)(threading|contextlib|functools|runpy|inspect|typing|queue|weakref|abc|enum|copy)\.py\(');

-- is_waiting_frame(name): whether a Python frame or built-in function does nothing until a lock, a time, a process, or data of a
-- pipe, socket or queue comes, or a GPU is done: as torch and the runtimes of CUDA and HIP name their calls. A copy that also
-- waits, as that of .item(), is none.
create or replace macro is_waiting_frame(name) as
    regexp_matches(name, '^<built-in method (acquire of _(thread|multiprocessing)|poll of select|(recv|recv_into|accept) of (_socket\.)?socket|get of _queue|join of _thread)\b')
    or regexp_matches(name, '^<built-in function (sleep|select|poll|read|waitpid|wait4)>')
    or regexp_matches(name, '(^|/)(threading\.py\(\d+\): (wait|_wait_for_tstate_lock)|selectors\.py\(\d+\): select)$')
    or regexp_matches(name, '^<built-in (function|method) (_\w+_synchronize\w*|(cuda|hip)\w+Synchronize|synchronize of [\w.]*(Event|Stream))\b')
    or regexp_matches(name, '(^|/)torch/(accelerator|cuda|mps|mtia|xpu)/\w+\.py\(\d+\): synchronize$')
    or regexp_matches(name, '^(cuda|cu|hip)(Ctx|Device|Event|Stream)Synchronize');

-- program_frames(of_run, of_rank, replays): frames of the program, numbered: of this run and rank, in a scope or not, and where
-- known_replays() were captured.
create or replace macro program_frames(of_run, of_rank, replays) as table
with _other_frames as not materialized (
    from unscoped_python_frames where not (matches(run, of_run) and matches(rank, of_rank))
)
select row_number() over () as id, run, source, rank, pid, tid, name, start_ns, end_ns
from (
    from unscoped_python_frames where matches(run, of_run) and matches(rank, of_rank)
    union all
    from around_captures('_other_frames', replays)
)
where is_program_frame(name);

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
    from backward_ops(ops)
),
_forward_starts as materialized (
    from forward_ops(ops)
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
