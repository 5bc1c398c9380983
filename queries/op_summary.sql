-- Framework ops by CPU time, and by the GPU time that they launch.
-- A row is one run, rank and op name, over all threads; with --by also one shape, module or Python stack. An op of the
-- backward pass belongs to the module and the stack of its forward op (see module_time).
-- `self_ns` is an op's own time: its duration less those of the ops directly inside it on its thread. The self times of all
-- ops add up to the time that the outermost ops took (`op_self_sum_ns`), plus that of ops that overlap another one. `total_ns`
-- holds the ops inside, and a recursive op once for each outermost call. An op that works and one that waits look the same: the first
-- ops may be those that wait for the GPU. For GPU time see op_kernels, for FLOPs and the share of the peak op_flop. A
-- kernel, copy or memset belongs to the innermost op that ran when it was launched, on the launching thread; where its launch
-- was not recorded, to the op whose id it carries. One that a graph replays belongs to the op of its capture (see
-- graph_replays), of which the run may have no calls. GPU times add up over rows that run at once. An op that begins inside
-- another and ends after it (damage) counts in `overlapping_calls`: no op lies inside it, so its self time is its duration. Of
-- ops that begin and end together the one that the trace names first holds the others.
-- /// query
-- title = "Op summary"
-- needs = ["ops"]
-- show = [
--     "run", "rank", "op", "shapes", "module", "stack", "calls", "self_ns", "of_op_self_sum_ratio", "gpu_ns", "total_ns",
-- ]
-- chart = { kind = "bars", x = "op", y = ["self_ns"], by = "run" }
-- hints = [
--     { when = "$by = 'shape' and not exists (from ops where input_shapes is not null and matches(run, $run) and matches(rank, $rank))", text = "shapes are not recorded; record them with record_shapes=True of the PyTorch profiler" },
--     { when = "$by in ('module', 'stack') and not exists (from python_frames where matches(run, $run) and matches(rank, $rank))", text = "modules and stacks are not recorded; record them with with_stack=True of the PyTorch profiler" },
-- ]
-- [params]
-- common = ["run", "rank"]
-- by = { default = "name", choices = ["name", "shape", "module", "stack"], about = "what the rows are of" }
-- stack_frames = { default = 5, about = "at most that many lines of a stack" }
-- top_ops = { type = "integer", example = 10, about = "only that many ops of each rank, those with the largest self_ns" }
-- captures_from = "common"
-- [columns]
-- common = ["run", "rank"]
-- op = "Op name."
-- calls = "common"
-- total_ns = "Durations of the outermost calls, added up."
-- self_ns = "Durations less those of the ops directly inside, added up."
-- mean_ns = "Mean duration of the timed calls, rounded to whole ns."
-- max_ns = "common"
-- op_self_sum_ns = "Self times of all ops of the rank, added up."
-- of_op_self_sum_ratio = "self_ns / op_self_sum_ns."
-- gpu_ns = "Durations of the GPU rows launched inside the outermost calls, added up."
-- gpu_self_ns = "Durations of the GPU rows launched by the op itself, no op inside it, added up; also those that name a call without a duration, in which no time passes for `gpu_ns`."
-- gpu_rows = "GPU rows launched by the op itself: kernels, copies, memsets and whole graphs."
-- outermost_calls = "Calls inside no call of the same op on the same thread."
-- timed_calls = "common"
-- overlapping_calls = "Calls that begin inside another op and end after it."
-- shapes = "With --by shape sizes of what they take, as recorded; NULL where the profiler did not record them."
-- module = "With --by module the modules around them, outermost first, joined by /; NULL outside of all."
-- stack = "With --by stack the lines of the program around them, innermost first; NULL where no stacks are recorded."
-- [report]
-- section = "host"
-- order = 2
-- ok_text = "No op takes more than 20 % of the CPU time in ops."
-- unknown = "Which op takes the CPU time is not known: no op has a duration above 0."
-- [[report.findings]]
-- when = "self_ns > 0.2 * nullif(op_self_sum_ns, 0)"
-- by = "self_ns"
-- text = "[{where}: ]{op} takes {self_ns of op_self_sum_ns} of the CPU time in ops, in {calls} calls."
-- advice = "Where no GPU is used this is the work itself: larger batches, other precision, more threads. Before a GPU it is the cost of launching, or a wait: fuse or compile the small ops, and take out synchronizations."
-- ///
with
-- /// if by = shape, module, stack
replayed as materialized (
    from known_replays($run, $rank, $captures_from)
),
recorded as not materialized (
    from counted_ops('ops', $run, $rank, 'replayed')
),
api as not materialized (
    from filtered_calls($run, $rank)
),
activity as materialized (
    from filtered_activity($run, $rank)
),
-- /// end
-- /// if by = module, stack
host_ops as materialized (
    select * exclude (forward_tid), row_number() over () as id, coalesce(forward_tid, 0) > 0 as is_backward
    from recorded
    where $by in ('module', 'stack')
),
-- /// end
-- /// if by = module
modules as materialized (
    select row_number() over () as id, * exclude (id)
    from (
        from module_frames($run, $rank)
        union all by name
        select null as id, * from naming_modules($run, $rank, 'replayed')
    )
    where $by = 'module'
),
-- /// end
-- /// if by = stack
frames as materialized (
    from program_frames($run, $rank, 'replayed') where $by = 'stack'
),
in_frames as materialized (
    from op_frames('host_ops', 'frames')
),
-- /// end
-- /// if by = shape, module, stack
executions as not materialized (
    select
        row_number() over () as place, run, source, rank, pid, tid, name, start_ns, end_ns, external_id, is_counted,
        input_shapes as detail
    from recorded
    where $by = 'shape'
    -- /// end
    -- /// if by = module, stack
    union all
    select o.id, o.run, o.source, o.rank, o.pid, o.tid, o.name, o.start_ns, o.end_ns, o.external_id, o.is_counted, d.detail
    from host_ops as o
    left join (
        select null::bigint as id, null::varchar as detail where false
        -- /// end
        -- /// if by = module
        union all
        select f.id, array_to_string(p.path, '/')
        from op_frames('host_ops', 'modules') as f
        join module_places('modules') as p on f.frame = p.id
        -- /// end
        -- /// if by = stack
        union all
        select f.id, s.stack
        from in_frames as f
        join frame_stacks('frames', 'in_frames', $stack_frames) as s on f.frame = s.id
        -- /// end
        -- /// if by = module, stack
    ) as d on o.id = d.id
    -- /// end
    -- /// if by = shape, module, stack
),
-- /// end
sums as not materialized (
    select null as run, null as rank, null as name, null as detail where false
    -- /// if by = name
    union all by name
    from op_times where matches(run, $run) and matches(rank, $rank) and $by = 'name'
    -- /// end
    -- /// if by = shape, module, stack
    union all by name
    from op_sums('executions', 'activity', 'api', 'replayed')
    -- /// end
),
ranked as (
    select
        *,
        sum(self_ns) over (partition by run, rank) as op_self_sum_ns,
        row_number() over (partition by run, rank order by self_ns desc, name, detail) as place
    from sums
)
select
    run, rank,
    name as op,
    calls,
    as_bigint(coalesce(total_ns, 0)) as total_ns,
    as_bigint(self_ns) as self_ns,
    as_bigint(round(measured_ns / nullif(timed_calls, 0))) as mean_ns,
    max_ns,
    as_bigint(op_self_sum_ns) as op_self_sum_ns,
    self_ns / nullif(op_self_sum_ns, 0) as of_op_self_sum_ratio,
    as_bigint(coalesce(gpu_ns, 0)) as gpu_ns,
    as_bigint(coalesce(gpu_self_ns, 0)) as gpu_self_ns,
    coalesce(gpu_rows, 0) as gpu_rows,
    coalesce(outermost_calls, 0) as outermost_calls,
    timed_calls,
    coalesce(overlapping_calls, 0) as overlapping_calls,
    case when $by = 'shape' then detail end as shapes,
    case when $by = 'module' then detail end as module,
    case when $by = 'stack' then detail end as stack
from ranked
where $top_ops is null or place <= $top_ops
order by run, rank, ranked.self_ns desc, op, ranked.detail
