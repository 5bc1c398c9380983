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
with replayed as materialized (
    from known_replays($run, $rank, $captures_from)
),
recorded as not materialized (
    select run, source, rank, pid, tid, name, start_ns, end_ns, external_id, sequence_number, forward_tid, input_shapes, true as is_counted
    from ops
    where matches(run, $run) and matches(rank, $rank)
    union all
    select run, source, rank, pid, tid, name, start_ns, end_ns, external_id, sequence_number, forward_tid, input_shapes, false
    from naming_ops($run, $rank, 'replayed')
),
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
executions as not materialized (
    select
        row_number() over () as place, run, source, rank, pid, tid, name, start_ns, end_ns, external_id, is_counted,
        case when $by = 'shape' then input_shapes end as detail
    from recorded
    where $by in ('name', 'shape')
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
),
kinds as materialized (  -- a million calls have some hundred, and a number takes less memory than their columns
    select row_number() over () as kind, run, source, rank, pid, tid, name, detail, is_counted
    from (
        select run, source, rank, pid, tid, name, detail, is_counted
        from executions
        group by run, source, rank, pid, tid, name, detail, is_counted
        having count(*) > 0  -- always so; but DuckDB then takes the kinds for few, and builds no hash table on the calls
    )
),
numbered_calls as materialized (  -- the last 31 bits of a call's id are its kind, those before its place in the trace
    select (e.place << 31) + k.kind as id, e.start_ns, e.end_ns, e.external_id
    from executions as e
    join kinds as k
        on e.run = k.run and e.source = k.source and e.rank = k.rank and e.pid is not distinct from k.pid
        and e.tid is not distinct from k.tid and e.name is not distinct from k.name and e.detail is not distinct from k.detail
        and e.is_counted = k.is_counted
),
calls as not materialized (
    select c.id, k.run, k.source, k.pid, k.tid, k.kind as part, c.start_ns, c.end_ns, c.external_id
    from numbered_calls as c
    join kinds as k on c.id & 2147483647 = k.kind
),
api as not materialized (
    from filtered_calls($run, $rank)
),
activity as materialized (
    from filtered_activity($run, $rank)
),
replay_points as materialized (
    from replayed_points('activity', 'replayed')
),
replayers as materialized (  -- the runs and ranks that replay what was captured anywhere
    select row_number() over () as number, run, rank from (select distinct run, rank from replayed)
),
direct as not materialized (
    select run, source, pid, correlation, external_id, gpu_ns from activity anti join replay_points using (id)
),
launched as materialized (
    from with_calls('direct', 'api')
),
calls_by_id as (  -- only of the ids that have to be looked for
    select
        run, source, pid, external_id,
        min(id) as id,
        arg_min_null(tid, id) as tid,
        arg_min_null(start_ns, id) as start_ns
    from calls
    where external_id in (select external_id from launched where call_start_ns is null)
    group by run, source, pid, external_id
),
by_call as materialized (  -- `device` distinguishes what the replays of each run and rank add
    select run, source, pid, call_tid as tid, call_start_ns as at_ns, null::bigint as device, gpu_ns, 1 as gpu_rows
    from launched
    where call_start_ns is not null
    union all
    select p.run, p.source, p.pid, p.tid, p.at_ns, r.number, a.gpu_ns, 1
    from replay_points as p
    join activity as a using (id)
    join replayers as r on a.run = r.run and a.rank = r.rank
),
by_id as materialized (  -- what an op launched without a recorded call, at its start
    select g.run, g.source, g.pid, o.tid, o.start_ns as at_ns, null as device, g.gpu_ns, 1 as gpu_rows, o.id
    from launched as g
    join calls_by_id as o
        on g.run = o.run and g.source = o.source and g.pid is not distinct from o.pid and g.external_id = o.external_id
    where g.call_start_ns is null and has_valid_interval(o.start_ns, o.start_ns)
),
within as materialized (
    select id, device as replayer, gpu_ns, gpu_rows from summed_within('calls', 'by_call')
),
nest as materialized (
    select id, end_ns - start_ns as dur_ns, parent, crosses from nesting('calls')
),
launching as materialized (
    select n.id, n.parent, w.replayer, w.gpu_ns, w.gpu_rows
    from within as w
    join nest as n using (id)
    where not n.crosses
),
shares as (  -- what each call adds to its kind's sums
    select
        id,
        null::bigint as replayer,
        dur_ns as self_ns,
        0 as gpu_self_ns,
        0 as gpu_rows,
        crosses::integer as overlapping_calls
    from nest
    union all
    select parent, null, -dur_ns, 0, 0, 0 from nest where parent is not null
    union all
    select id, replayer, 0, gpu_ns, gpu_rows, 0 from launching
    union all
    select parent, replayer, 0, -gpu_ns, -gpu_rows, 0 from launching where parent is not null
    union all
    select id, null, 0, gpu_ns, gpu_rows, 0 from by_id
),
own as materialized (
    select
        id & 2147483647 as kind,
        replayer,
        sum(self_ns) as self_ns,
        sum(gpu_self_ns) as gpu_self_ns,
        sum(gpu_rows) as gpu_rows,
        sum(overlapping_calls) as overlapping_calls
    from shares
    group by kind, replayer
),
measures as (
    select
        id & 2147483647 as kind,
        count(*) as calls,
        count(*) filter (has_valid_interval(start_ns, end_ns)) as timed_calls,
        sum(case when has_valid_interval(start_ns, end_ns) then end_ns - start_ns end) as measured_ns,
        max(case when has_valid_interval(start_ns, end_ns) then end_ns - start_ns end) as max_ns
    from numbered_calls
    group by kind
),
outer_ids as materialized (
    from outermost('calls')
),
outer_calls as (
    select id & 2147483647 as kind, count(*) as outermost_calls, sum(end_ns - start_ns) as total_ns
    from numbered_calls
    where id in (from outer_ids)
    group by kind
),
outer_gpu as materialized (
    select id & 2147483647 as kind, replayer, sum(gpu_ns) as gpu_ns
    from (
        select id, replayer, gpu_ns from within
        union all
        select id, null, gpu_ns from summed_within('calls', 'by_id')
    )
    where id in (from outer_ids)
    group by kind, replayer
),
of_kinds as (
    select
        k.run, k.rank, k.name, k.detail, m.calls, m.timed_calls, m.measured_ns, m.max_ns, c.total_ns, o.self_ns, g.gpu_ns,
        o.gpu_self_ns, o.gpu_rows, c.outermost_calls, o.overlapping_calls
    from kinds as k
    join measures as m using (kind)
    left join own as o on k.kind = o.kind and o.replayer is null
    left join outer_calls as c on k.kind = c.kind
    left join outer_gpu as g on k.kind = g.kind and g.replayer is null
    where k.is_counted
    union all by name
    select  -- of a scope of executions: what ops outside of it launched
        k.run, k.rank, k.name, k.detail, 0 as calls, 0 as timed_calls, 0 as self_ns, g.gpu_ns, o.gpu_self_ns, o.gpu_rows,
        0 as overlapping_calls
    from kinds as k
    join own as o on k.kind = o.kind and o.replayer is null
    left join outer_gpu as g on k.kind = g.kind and g.replayer is null
    where not k.is_counted and (o.gpu_rows > 0 or g.gpu_ns > 0)
    union all by name
    select
        r.run, r.rank, k.name, k.detail, 0 as calls, 0 as timed_calls, 0 as self_ns, g.gpu_ns, o.gpu_self_ns, o.gpu_rows,
        0 as overlapping_calls
    from own as o
    join kinds as k using (kind)
    join replayers as r on o.replayer = r.number
    left join outer_gpu as g on o.kind = g.kind and o.replayer = g.replayer
),
by_name as (
    select
        run, rank, name, detail,
        sum(calls) as calls,
        sum(timed_calls) as timed_calls,
        sum(measured_ns) / nullif(sum(timed_calls), 0) as mean_ns,
        max(max_ns) as max_ns,
        sum(total_ns) as total_ns,
        coalesce(sum(self_ns), 0) as self_ns,
        sum(gpu_ns) as gpu_ns,
        sum(gpu_self_ns) as gpu_self_ns,
        sum(gpu_rows) as gpu_rows,
        sum(outermost_calls) as outermost_calls,
        sum(overlapping_calls) as overlapping_calls
    from of_kinds
    group by run, rank, name, detail
),
ranked as (
    select
        *,
        sum(self_ns) over (partition by run, rank) as op_self_sum_ns,
        row_number() over (partition by run, rank order by self_ns desc, name, detail) as place
    from by_name
)
select
    run, rank,
    name as op,
    as_bigint(calls) as calls,
    as_bigint(coalesce(total_ns, 0)) as total_ns,
    as_bigint(self_ns) as self_ns,
    as_bigint(round(mean_ns)) as mean_ns,
    max_ns,
    as_bigint(op_self_sum_ns) as op_self_sum_ns,
    self_ns / nullif(op_self_sum_ns, 0) as of_op_self_sum_ratio,
    as_bigint(coalesce(gpu_ns, 0)) as gpu_ns,
    as_bigint(coalesce(gpu_self_ns, 0)) as gpu_self_ns,
    as_bigint(coalesce(gpu_rows, 0)) as gpu_rows,
    as_bigint(coalesce(outermost_calls, 0)) as outermost_calls,
    as_bigint(timed_calls) as timed_calls,
    as_bigint(coalesce(overlapping_calls, 0)) as overlapping_calls,
    case when $by = 'shape' then detail end as shapes,
    case when $by = 'module' then detail end as module,
    case when $by = 'stack' then detail end as stack
from ranked
where $top_ops is null or place <= $top_ops
order by run, rank, ranked.self_ns desc, op, ranked.detail
