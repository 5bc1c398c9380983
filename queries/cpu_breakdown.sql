-- Where the time of each CPU thread goes.
-- A row is one run, rank, process and thread in which an op, a call, a range or a Python frame takes time. Each nanosecond
-- of the window counts once on each thread, for the first that applies: communication by gloo, MPI or UCC (as
-- cpu_communication finds it), waiting for the data loader (as data_loader_wait finds it), calls of the GPU's API that
-- synchronize, its other calls, calls of torch.distributed (ops of c10d, communication as well), other ops, calls of the
-- operating system, annotated ranges, Python frames. These eight parts and `idle_or_unrecorded_ns` add up to `window_ns`. So a call counts as the call and not as the op around it, and a Python frame
-- only where none of the others is open. A range that marks a step names no work: time that only a step covers is idle or
-- unrecorded, and so is a thread that sleeps.
-- /// query
-- title = "CPU time breakdown"
-- needs = ["ops", "api_calls", "annotations", "python_frames"]
-- show = [
--     "run", "rank", "thread", "window_ns", "op_ns", "api_ns", "idle_or_unrecorded_ns", "communication_ns", "data_wait_ns",
--     "range_ns", "no_work_ns", "sync_ns", "frame_ns", "os_ns",
-- ]
-- chart = { kind = "stacked", x = "thread", y = ["communication_ns", "data_wait_ns", "sync_ns", "api_ns", "op_ns", "os_ns", "range_ns", "frame_ns", "idle_or_unrecorded_ns"], labels = { communication_ns = "communication", sync_ns = "synchronization", api_ns = "GPU API", op_ns = "ops", os_ns = "OS calls", range_ns = "ranges", frame_ns = "Python" }, by = "rank", panel = ["run"] }
-- [params]
-- common = ["run", "rank", "step_name", "loader_name"]
-- [columns]
-- common = ["run", "rank"]
-- pid = "Process."
-- tid = "Thread; NULL where the source has none."
-- thread = "main, autograd (runs the backward pass), pin_memory, communication, else its name, if it has one of its own, or thread; numbered by their recorded time where a rank has several."
-- thread_name = "Name of the thread, where the source has it."
-- window_ns = "First start to last end of what the CPU threads of the rank recorded, summed over the sources."
-- communication_ns = "Time in communication by gloo, MPI or UCC, and in calls of torch.distributed, which start it or wait for it."
-- data_wait_ns = "Time in which a range of the data loader was open."
-- sync_ns = "Time in calls of the GPU's API that wait: names with Synchronize."
-- api_ns = "Time in other calls of the GPU's API and libraries."
-- op_ns = "Time in ops, less what of them is communication, waiting for data or a call of the GPU's API."
-- os_ns = "Time in calls of the operating system that nsys recorded (osrt), outside of all of these."
-- range_ns = "Time in annotated ranges alone, those of steps apart."
-- frame_ns = "Time in Python frames alone."
-- idle_or_unrecorded_ns = "Time in which nothing was recorded, or a step alone."
-- idle_or_unrecorded_ratio = "idle_or_unrecorded_ns / window_ns."
-- no_work_ns = "Time in which no thread of the rank communicates, waits for data, calls the GPU's API or runs an op; NULL where no op takes time."
-- place = "Place of the thread in its rank, by recorded time: 1 has the most."
-- gpus = "GPUs on which the rank ran anything."
-- [report]
-- section = "host"
-- order = 0
-- row = "rank[s]"
-- row_key = "rank"
-- ok_text = "In each rank without a GPU, some thread runs an op, communicates or waits for data for at least 90 % of the window."
-- unknown = "How long ranks without a GPU run no op is not known: no rank without a GPU has an op with a duration above 0."
-- [[report.findings]]
-- when = "case when gpus = 0 then place = 1 and no_work_ns > 0.1 * nullif(window_ns, 0) end"
-- by = "no_work_ns"
-- cost = { ns = "no_work_ns", rows = "place = 1 and gpus = 0", adds = true, topics = ["host"], detail = 1 }
-- text = "[{where}: ]for {no_work_ns of window_ns} of the window no thread runs an op, communicates or waits for data."
-- every = "{where}: for {no_work_ns of window_ns} of the windows no thread runs an op, communicates or waits for data."
-- advice = "It is Python between the ops, or work that no op marks: the ranges and Python frames of the timeline (recorded `with_stack=True`, or by `--stacks` of tracelab collect) show which. Mark the loading of data, and fuse or compile small ops."
-- ///
with marked as not materialized (
    select run, source, rank, pid, tid, name, start_ns, end_ns
    from annotations
    where scope = 'cpu' and matches(run, $run) and matches(rank, $rank)
),
executions as not materialized (
    select run, source, rank, pid, tid, name, start_ns, end_ns
    from ops
    where matches(run, $run) and matches(rank, $rank)
),
op_kinds as materialized (  -- a million ops have some hundred
    select run, source, rank, pid, tid, name
    from executions
    group by run, source, rank, pid, tid, name
),
names as materialized (  -- the expressions look at each distinct name once
    select
        name,
        case
            when is_cpu_communication(name) then 0
            when regexp_matches(name, $loader_name) then 1
            when is_collective_op(name) then 4
        end::tinyint as layer,
        regexp_matches(name, $step_name) as is_step
    from (select name from op_kinds union select distinct name from marked)
    where layer is not null or is_step
),
layered as not materialized (
    select o.run, o.source, o.rank, o.pid, o.tid, o.start_ns, o.end_ns, coalesce(n.layer, 5) as layer
    from executions as o
    left join names as n using (name)
    union all
    select m.run, m.source, m.rank, m.pid, m.tid, m.start_ns, m.end_ns, coalesce(n.layer, case when n.is_step then 9 else 7 end)
    from marked as m
    left join names as n using (name)
    union all
    select
        run, source, rank, pid, tid, start_ns, end_ns,
        case when api = 'osrt' then 6 when name like '%Synchronize%' then 2 else 3 end
    from api_calls
    where matches(run, $run) and matches(rank, $rank)
    union all
    select run, source, rank, pid, tid, start_ns, end_ns, 8
    from python_frames
    where matches(run, $run) and matches(rank, $rank)
),
threads_seen as (  -- a NULL start or end of a thread without a row of valid times
    select
        hash(run, source, rank, pid, tid) as key, run, source, rank, pid, tid,
        min(start_ns) filter (has_valid_interval(start_ns, end_ns)) as first_ns,
        max(end_ns) filter (has_valid_interval(start_ns, end_ns)) as last_ns,
        bool_or(layer = 9 and has_valid_interval(start_ns, end_ns)) as has_step
    from layered
    group by run, source, rank, pid, tid
),
seen as materialized (  -- the threads of a source
    select lane as thread, * exclude (lane) from lane_numbers('threads_seen')
),
spans as (  -- a lane is one layer of one thread
    select 16 * t.thread + l.layer as lane, l.start_ns, l.end_ns
    from layered as l
    join seen as t on hash(l.run, l.source, l.rank, l.pid, l.tid) = t.key
    where has_valid_interval(l.start_ns, l.end_ns) and l.layer < 9
),
pieces as materialized (
    select lane // 16 as thread, lane % 16 as layer, start_ns, end_ns from merged('spans')
),
thread_events as (
    select thread as lane, start_ns as at_ns, 1 << layer as step from pieces
    union all
    select thread, end_ns, -(1 << layer) from pieces
),
depths as (  -- a number of bits as small as the layers are counts in less time than a sum
    select lane as thread, dur_ns, depth::smallint as depth from running_depth('thread_events')
),
parts as (
    select
        thread,
        sum(dur_ns) filter (depth % 2 = 1 or depth % 32 = 16) as communication_ns,
        sum(dur_ns) filter (depth % 4 = 2) as data_wait_ns,
        sum(dur_ns) filter (depth % 8 = 4) as sync_ns,
        sum(dur_ns) filter (depth % 16 = 8) as api_ns,
        sum(dur_ns) filter (depth % 64 = 32) as op_ns,
        sum(dur_ns) filter (depth % 128 = 64) as os_ns,
        sum(dur_ns) filter (depth % 256 = 128) as range_ns,
        sum(dur_ns) filter (depth % 512 = 256) as frame_ns,
        sum(dur_ns) filter (depth > 0) as recorded_ns,
        bool_or(depth & 48 > 0) as has_ops
    from depths
    group by thread
),
sources_of_ranks as (
    select run, source, rank, max(last_ns) - min(first_ns) as window_ns from seen group by run, source, rank
),
windows_of_ranks as (
    select run, rank, as_bigint(coalesce(sum(window_ns), 0)) as window_ns from sources_of_ranks group by run, rank
),
working as (
    select t.run, t.source, t.rank, null::integer as device, p.start_ns, p.end_ns
    from pieces as p
    join seen as t using (thread)
    where p.layer <= 5
),
work as (
    select run, rank, busy_ns from busy('working')
),
traits as (  -- what the ops of a thread show of its role
    select
        run, rank, pid, tid,
        bool_or(starts_with(name, 'autograd::engine::') or name = 'torch::autograd::AccumulateGrad') as is_backward,
        bool_or(name in ('aten::pin_memory', 'aten::_pin_memory')) as is_pinning
    from op_kinds
    group by run, rank, pid, tid
),
names_of_threads as (
    select
        run, rank, pid, tid,
        any_value(coalesce(nullif(regexp_extract(name, '^thread \d+ \((.*)\)$', 1), ''), name)) as thread_name
    from (select run, rank, pid, tid, args ->> 'name' as name from other_events where phase = 'M' and name = 'thread_name')
    group by run, rank, pid, tid
),
gpus_of_ranks as (
    select run, rank, count(distinct device) as gpus
    from gpu_activity
    where matches(run, $run) and matches(rank, $rank)
    group by run, rank
),
threads_of_ranks as (
    select
        run, rank, pid, tid,
        coalesce(bool_or(has_step), false) as has_step,
        coalesce(bool_or(has_ops), false) as has_ops,
        coalesce(sum(communication_ns), 0) as communication_ns,
        coalesce(sum(data_wait_ns), 0) as data_wait_ns,
        coalesce(sum(sync_ns), 0) as sync_ns,
        coalesce(sum(api_ns), 0) as api_ns,
        coalesce(sum(op_ns), 0) as op_ns,
        coalesce(sum(os_ns), 0) as os_ns,
        coalesce(sum(range_ns), 0) as range_ns,
        coalesce(sum(frame_ns), 0) as frame_ns,
        coalesce(sum(recorded_ns), 0) as recorded_ns
    from seen
    left join parts using (thread)
    group by run, rank, pid, tid
    having bool_or(has_step) or sum(recorded_ns) > 0
),
described as (
    select
        t.*, w.window_ns, g.gpus, k.busy_ns, n.thread_name,
        bool_or(t.has_ops) over (partition by t.run, t.rank) as rank_has_ops,
        coalesce(t.pid = t.tid and t.pid <> 0, false) as has_pid,
        case
            when has_pid or (t.has_step and not bool_or(has_pid) over process) then 'main'
            when r.is_backward then 'autograd'
            when r.is_pinning then 'pin_memory'
            when 2 * t.communication_ns > t.recorded_ns then 'communication'
            else coalesce(nullif(n.thread_name, max(n.thread_name) filter (has_pid) over (partition by t.run, t.rank)), 'thread')
        end as role
    from threads_of_ranks as t
    join windows_of_ranks as w on t.run = w.run and t.rank = w.rank
    left join traits as r
        on t.run = r.run and t.rank = r.rank and t.pid is not distinct from r.pid and t.tid is not distinct from r.tid
    left join names_of_threads as n
        on t.run = n.run and t.rank = n.rank and t.pid is not distinct from n.pid and t.tid is not distinct from n.tid
    left join gpus_of_ranks as g on t.run = g.run and t.rank = g.rank
    left join work as k on t.run = k.run and t.rank = k.rank
    window process as (partition by t.run, t.rank, t.pid)
),
placed as (
    select
        *,
        row_number() over (partition by run, rank order by recorded_ns desc, pid, tid) as place,
        count(*) over (partition by run, rank, role) as alike,
        row_number() over (partition by run, rank, role order by recorded_ns desc, pid, tid) as number
    from described
)
select
    run, rank, pid, tid,
    case when alike = 1 then role else format('{} {}', role, number) end as thread,
    thread_name, window_ns,
    as_bigint(communication_ns) as communication_ns,
    as_bigint(data_wait_ns) as data_wait_ns,
    as_bigint(sync_ns) as sync_ns,
    as_bigint(api_ns) as api_ns,
    as_bigint(op_ns) as op_ns,
    as_bigint(os_ns) as os_ns,
    as_bigint(range_ns) as range_ns,
    as_bigint(frame_ns) as frame_ns,
    as_bigint(window_ns - recorded_ns) as idle_or_unrecorded_ns,
    (window_ns - recorded_ns) / nullif(window_ns, 0) as idle_or_unrecorded_ratio,
    case when rank_has_ops then as_bigint(window_ns - coalesce(busy_ns, 0)) end as no_work_ns,
    place,
    coalesce(gpus, 0) as gpus
from placed
order by run, rank, place
