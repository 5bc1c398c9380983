-- Which framework ops take the time of the processor, and of the devices that they launch on.
-- A row is one run, rank and op name, over all threads. `self_ns` is an op's own time: its duration less those of the ops
-- directly inside it on its thread. The self times of all ops add up to the time that the outermost ops took
-- (`op_self_sum_ns`). `total_ns` holds the ops inside, and a recursive op once for each outermost call. An op is not told
-- from one that waits. A kernel, copy or fill belongs to the innermost op that ran when it was launched, on the launching
-- thread; where its launch was not recorded, to the op whose id it carries. GPU times add up over rows that run at once.
-- An op that begins inside another and ends after it (damage) counts in `overlapping_calls`; it has no self time.
-- /// query
-- title = "Op summary"
-- needs = ["ops"]
-- chart = { kind = "bars", x = "op", y = ["self_ns"], by = "run" }
-- [params]
-- run = { type = "text", about = "only this run" }
-- rank = { type = "integer", example = 0, about = "only this rank" }
-- top_ops = { type = "integer", example = 10, about = "only that many ops of each rank, those with the largest self_ns" }
-- [columns]
-- run = "The run."
-- rank = "Rank of the process."
-- op = "Op name."
-- calls = "Calls."
-- total_ns = "Durations of the outermost calls, added up."
-- self_ns = "Durations less those of the ops directly inside, added up."
-- mean_ns = "Mean duration of the timed calls, rounded to whole ns."
-- max_ns = "The longest duration."
-- op_self_sum_ns = "Self times of all ops of the rank, added up."
-- of_op_self_sum_ratio = "self_ns / op_self_sum_ns."
-- gpu_ns = "Durations of the GPU rows launched inside the outermost calls, added up."
-- gpu_self_ns = "Durations of the GPU rows launched by the op itself, no op inside it, added up."
-- gpu_rows = "GPU rows launched by the op itself: kernels, copies, fills and whole graphs."
-- outermost_calls = "Calls inside no call of the same op on the same thread."
-- timed_calls = "Calls with a valid start and duration."
-- overlapping_calls = "Calls that begin inside another op and end after it."
-- [report]
-- part = "host"
-- place = 2
-- fine = "No op takes more than 20 % of the processor's time in ops."
-- unknown = "Which op takes the processor's time is not known: no op has a duration above 0."
-- [[report.says]]
-- when = "self_ns > 0.2 * nullif(op_self_sum_ns, 0)"
-- by = "self_ns"
-- text = "[{where}: ]{op} takes {self_ns of op_self_sum_ns} of the processor's time in ops, in {calls} calls."
-- try = "Where no GPU is used this is the work itself: larger batches, other precision, more threads. Before a GPU it is the cost of launching, or a wait: fuse or compile the small ops, and take out synchronisations."
-- ///
with calls as materialized (
    select
        row_number() over () as id,
        run, source, rank, pid, tid, name, start_ns, end_ns, external_id,
        case when measured(start_ns, end_ns) then dur_ns end as measured_ns
    from ops
    where picked(run, $run) and picked(rank, $rank)
),
api as (
    select run, source, pid, tid, correlation, start_ns, end_ns
    from api_calls
    where picked(run, $run) and picked(rank, $rank)
),
activity as (
    select run, source, pid, correlation, external_id, case when measured(start_ns, end_ns) then dur_ns else 0 end as gpu_ns
    from gpu_activity
    where picked(run, $run) and picked(rank, $rank)
),
groups as (
    select run, source, pid, correlation, external_id, sum(gpu_ns) as gpu_ns, count(*) as gpu_rows
    from activity
    group by run, source, pid, correlation, external_id
),
launched as materialized (
    from with_calls('groups', 'api')
),
calls_by_id as (  -- only of the ids that have to be looked for
    select run, source, pid, external_id, min(id) as id, min_by(tid, id) as tid, min_by(start_ns, id) as start_ns
    from calls
    where external_id in (select external_id from launched where call_start_ns is null)
    group by run, source, pid, external_id
),
launches as materialized (  -- one correlation; without its call, what one op launched, at the op's start
    select
        row_number() over () as id,
        g.run, g.source, g.pid, null as device, g.gpu_ns, g.gpu_rows,
        case when g.call_start_ns is null then o.id end as op,
        case when g.call_start_ns is null then o.tid else g.call_tid end as tid,
        coalesce(g.call_start_ns, o.start_ns) as at_ns
    from launched as g
    left join calls_by_id as o
        on g.run = o.run and g.source = o.source and g.pid is not distinct from o.pid and g.external_id = o.external_id
    where g.call_start_ns is not null or o.id is not null
),
placed as (
    select run, source, pid, tid, id, start_ns, end_ns from calls
    union all
    select run, source, pid, tid, -id, at_ns, at_ns from launches
),
nest as materialized (
    select thread, id, start_ns, end_ns, parent, depth, crosses from nested('placed')
),
launched_by as (
    select coalesce(l.op, n.parent) as id, l.gpu_ns, l.gpu_rows
    from nest as n
    join launches as l on n.id = -l.id
    where coalesce(l.op, n.parent) is not null
),
shares as (  -- what each call adds to its name's sums
    select
        id,
        (case when crosses then 0 else end_ns - start_ns end)::hugeint as self_ns,
        0::hugeint as gpu_self_ns, 0 as gpu_rows, crosses::integer as overlapping_calls
    from nest
    where id > 0
    union all
    select parent, start_ns - end_ns, 0, 0, 0 from nest where id > 0 and parent is not null
    union all
    select id, 0, gpu_ns, gpu_rows, 0 from launched_by
),
own as (
    select
        c.run, c.rank, c.name,
        sum(s.self_ns) as self_ns,
        sum(s.gpu_self_ns) as gpu_self_ns,
        sum(s.gpu_rows) as gpu_rows,
        sum(s.overlapping_calls) as overlapping_calls
    from shares as s
    join calls as c using (id)
    group by c.run, c.rank, c.name
),
calls_of_a_name as (
    select run, source, pid, tid, id, name as part, start_ns, end_ns from calls
),
outer_calls as (
    select c.run, c.rank, c.name, count(*) as outermost_calls, sum(c.measured_ns) as total_ns, sum(w.gpu_ns) as gpu_ns
    from outermost('calls_of_a_name') as o
    join calls as c using (id)
    left join summed_within('calls', 'launches') as w using (id)
    group by c.run, c.rank, c.name
),
by_name as (
    select
        run, rank, name,
        count(*) as calls,
        count(measured_ns) as timed_calls,
        whole(round(avg(measured_ns))) as mean_ns,
        max(measured_ns) as max_ns
    from calls
    group by run, rank, name
),
ranked as (
    select
        n.*, t.total_ns, t.gpu_ns, t.outermost_calls, w.gpu_self_ns, w.gpu_rows, w.overlapping_calls,
        coalesce(w.self_ns, 0) as self_ns,
        sum(coalesce(w.self_ns, 0)) over (partition by n.run, n.rank) as op_self_sum_ns,
        row_number() over (partition by n.run, n.rank order by coalesce(w.self_ns, 0) desc, n.name) as place
    from by_name as n
    left join own as w on n.run = w.run and n.rank = w.rank and n.name is not distinct from w.name
    left join outer_calls as t on n.run = t.run and n.rank = t.rank and n.name is not distinct from t.name
)
select
    run, rank,
    name as op,
    calls,
    whole(coalesce(total_ns, 0)) as total_ns,
    whole(self_ns) as self_ns,
    mean_ns, max_ns,
    whole(op_self_sum_ns) as op_self_sum_ns,
    self_ns / nullif(op_self_sum_ns, 0) as of_op_self_sum_ratio,
    whole(coalesce(gpu_ns, 0)) as gpu_ns,
    whole(coalesce(gpu_self_ns, 0)) as gpu_self_ns,
    whole(coalesce(gpu_rows, 0)) as gpu_rows,
    coalesce(outermost_calls, 0) as outermost_calls,
    timed_calls,
    whole(coalesce(overlapping_calls, 0)) as overlapping_calls
from ranked
where $top_ops is null or place <= $top_ops
order by run, rank, ranked.self_ns desc, op
