-- The steps that count where runs are compared, and the values of runs in them.

-- with_class_and_step(activity, steps): the rows of a relation of GPU rows (id, run, source, rank, pid, device, stream, kind,
-- name, start_ns, end_ns, dur_ns, correlation, and any others, which stay), kernels with their class and collective, each
-- with the step_id of with_step(), NULL for none.
create or replace macro with_class_and_step(activity, steps) as table
with _executions as (
    select run, source, rank, pid, device, stream, name, start_ns, end_ns, dur_ns, correlation, id as part
    from query_table(activity)
    where kind = 'kernel'
),
_classes as (
    select part as id, class, collective from with_class('_executions')
),
_steps as (
    select id, step_id from with_step(activity, steps)
)
select a.*, c.class, c.collective, s.step_id
from query_table(activity) as a
left join _classes as c using (id)
left join _steps as s using (id);

-- begun_step(relation, steps): the rows of a relation (id, run, source, rank, pid, start_ns) that begin in a step of
-- their process, on any of its threads, each with its step_id.
create or replace macro begun_step(relation, steps) as table
select r.id, s.id as step_id
from with_process(relation, steps) as r
asof join query_table(steps) as s on r.process = s.process and r.start_ns >= s.start_ns
where r.start_ns < s.end_ns;

-- counted_steps(steps, work): which steps of steps_of() count where their runs are compared: those with GPU work, if the run
-- has any, that all ranks of the run have, by their numbers or, where these are unknown, in the order of time; without the
-- first and the last of them, or, where any run has fewer than three, as many of the first of each. `work` are the GPU rows
-- of the runs (run, step_id: NULL for none). A row is one step: step_id, run, rank, its `place` in the rank from 1, in the
-- order of time, step_ns, and its `number` from 0 among those that count; NULL where it is left out, for the reason
-- `left_out`: no_gpu_work, not_on_all_ranks, first_or_last or beyond_shortest.
create or replace macro counted_steps(steps, work) as table
with _work as materialized (
    select run, step_id from query_table(work) group by run, step_id
),
_placed as (
    select
        s.id as step_id, s.run, s.rank, s.step,
        s.end_ns - s.start_ns as step_ns,
        row_number() over (partition by s.run, s.rank order by s.start_ns, s.id) as place,
        w.step_id is not null or g.run is null as has_work
    from query_table(steps) as s
    left join _work as w on s.run = w.run and s.id = w.step_id
    left join (select distinct run from _work) as g on s.run = g.run
),
_ranks as (
    select
        run, rank,
        count(*) filter (has_work) as usable,
        count(step) filter (has_work) = usable and count(distinct step) filter (has_work) = usable as numbered
    from _placed
    group by run, rank
),
_runs as (
    select run, count(*) as ranks, min(usable) as shortest, bool_and(numbered) as numbered from _ranks group by run
),
_shared as (
    select
        p.step_id,
        case
            when r.numbered then count(*) over (partition by p.run, p.step) = r.ranks
            else row_number() over (partition by p.run, p.rank order by p.place) <= r.shortest
        end as is_shared
    from _placed as p
    join _runs as r using (run)
    where p.has_work
),
_ordered as (
    select
        p.step_id,
        row_number() over rank_steps - 1 as place,
        count(*) over (partition by p.run, p.rank) as shared
    from _placed as p
    join _shared as s using (step_id)
    where s.is_shared
    window rank_steps as (partition by p.run, p.rank order by p.place)
),
_least as (
    select min(shared) as shared from _ordered
)
select
    p.step_id, p.run, p.rank, p.place, p.step_ns,
    case
        when l.shared < 3 then case when o.place < l.shared then o.place end
        when o.place between 1 and o.shared - 2 then o.place - 1
    end as number,
    case
        when not p.has_work then 'no_gpu_work'
        when o.step_id is null then 'not_on_all_ranks'
        when l.shared >= 3 and o.place in (0, o.shared - 1) then 'first_or_last'
        when l.shared < 3 and o.place >= l.shared then 'beyond_shortest'
    end as left_out
from _placed as p
left join _ordered as o using (step_id)
cross join _least as l;

-- step_slots(work): the time that each step takes on a device: from the start of its first kernel or graph to that of the
-- next step; the last one ends with its own last row. A host runs ahead of its device, so what a device does in a step is no
-- part of that step's time on the host. The relation has lane, place (of the step, in the order of time; NULL for none), kind,
-- start_ns and end_ns. A row is one lane and step with kernels, as layers_in_steps() takes it; a slot never begins before
-- that of an earlier step.
create or replace macro step_slots(work) as table
with _begun as (
    select lane, place, min(start_ns) filter (kind in ('kernel', 'graph')) as first_ns, max(end_ns) as last_ns
    from query_table(work)
    where place is not null
    group by lane, place
    having first_ns is not null
),
_ordered as (
    select lane, place, max(first_ns) over earlier as start_ns, max(last_ns) over earlier as last_ns
    from _begun
    window earlier as (partition by lane order by place rows between unbounded preceding and current row)
)
select
    lane, place, start_ns,
    coalesce(lead(start_ns) over (partition by lane order by place), last_ns) as end_ns,
    2 * row_number() over (order by lane, place) as slot
from _ordered;
