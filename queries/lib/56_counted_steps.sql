-- Which step a row belongs to, and which steps count where runs are compared.

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

-- completed_steps(steps, work): how long the steps of steps_of() take. `work` are the GPU rows of the runs (run, step_id: NULL for
-- none, start_ns, end_ns). A row is one step: step_id, run, rank, step, start_ns, step_ns, and whether it has_work, if the run
-- has any. A step is complete where the next one begins, or, if that is later, where the work ends that it and
-- those before it launched: a CPU that runs ahead of its GPU launches steps in less time than they take. step_ns is the time
-- from the completion of the previous step of the process, or from the step's own start if that is later, to its own.
create or replace macro completed_steps(steps, work) as table
with _work as materialized (
    select run, step_id, max(end_ns) filter (has_valid_interval(start_ns, end_ns)) as end_ns
    from query_table(work)
    group by run, step_id
),
_completed as (
    select
        s.id as step_id, s.run, s.rank, s.process, s.step, s.start_ns,
        max(greatest(s.end_ns, w.end_ns)) over (partition by s.process order by s.start_ns, s.id) as complete_ns,
        w.step_id is not null or g.run is null as has_work
    from query_table(steps) as s
    left join _work as w on s.run = w.run and s.id = w.step_id
    left join (select distinct run from _work) as g on s.run = g.run
)
select
    step_id, run, rank, step, start_ns,
    complete_ns - greatest(start_ns, lag(complete_ns) over (partition by process order by start_ns, step_id)) as step_ns,
    has_work
from _completed;

-- shared_steps(completed): completed_steps(), or some of them, with their places among those that all ranks of their run share:
-- by their numbers or, where these are unknown, in the order of time, of those with GPU work, if the run has any. A row is one
-- step: step_id, run, rank, its `place` in the rank from 1, in the order of time, step_ns, has_work, its shared_place from 0
-- (NULL where it is not shared), and how many its rank has, `shared`.
create or replace macro shared_steps(completed) as table
with _placed as (
    select
        step_id, run, rank, step, step_ns, has_work,
        row_number() over (partition by run, rank order by start_ns, step_id) as place
    from query_table(completed)
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
        row_number() over rank_steps - 1 as shared_place,
        count(*) over (partition by p.run, p.rank) as shared
    from _placed as p
    join _shared as s using (step_id)
    where s.is_shared
    window rank_steps as (partition by p.run, p.rank order by p.place)
)
select p.step_id, p.run, p.rank, p.place, p.step_ns, p.has_work, o.shared_place, o.shared
from _placed as p
left join _ordered as o using (step_id);

-- numbered_steps(relation): the rows of shared_steps() without the first and the last step of each rank or, where `least`, a
-- column beside those, is below three, as many of the first. A row is one step: step_id, run, rank, place, step_ns, and its
-- `number` from 0 among those that count; NULL where it is left out, for the reason `left_out`: no_gpu_work,
-- not_on_all_ranks, first_or_last or beyond_shortest.
create or replace macro numbered_steps(relation) as table
select
    step_id, run, rank, place, step_ns,
    case
        when least < 3 then case when shared_place < least then shared_place end
        when shared_place between 1 and shared - 2 then shared_place - 1
    end as number,
    case
        when not has_work then 'no_gpu_work'
        when shared_place is null then 'not_on_all_ranks'
        when least >= 3 and shared_place in (0, shared - 1) then 'first_or_last'
        when least < 3 and shared_place >= least then 'beyond_shortest'
    end as left_out
from query_table(relation);

-- counted_steps(completed): which steps count where their runs are compared: those of shared_steps() without the first and
-- the last, or, where any run has fewer than three, as many of the first of each. A row is as of numbered_steps().
create or replace macro counted_steps(completed) as table
with _shared as (
    select *, min(shared) over () as least from shared_steps(completed)
)
from numbered_steps('_shared');

-- counted_steps_alone(completed): the same of each run by itself: how many steps the others have does not matter.
create or replace macro counted_steps_alone(completed) as table
with _shared as (
    select *, min(shared) over (partition by run) as least from shared_steps(completed)
)
from numbered_steps('_shared');

-- recording_costs(relation): how long the steps of each run and rank take while a profiler records, and otherwise; `relation`
-- are annotations. Times are those of the run folder (table steps) without waits for data. A step is recorded where the folder
-- states it, or, of a program of its own, where a range of PyTorch's profiler has its number. `recorded_ns` and `other_ns` are
-- medians, of two steps the shorter one; the latter is of the `other_steps` on the `other_side` of the recording, before or
-- after, that is slower, so that a program that speeds up, or down, does not count as slowed. A rank with less than 3 other
-- steps, or none on a side, has no row. `is_slower`: by more than a tenth, and than three quarters of the others.
create or replace macro recording_costs(relation) as table
with _marked as (
    select distinct run, rank, try_cast(regexp_extract(name, '^ProfilerStep#(\d+)$', 1) as bigint) as step
    from query_table(relation)
    where scope = 'cpu' and starts_with(name, 'ProfilerStep#')
),
_timed as (
    select
        s.run, s.rank, s.start_ns, s.dur_ns - coalesce(s.data_wait_ns, 0) as work_ns,
        coalesce(s.profiler_state = 'recording', m.step is not null) as is_recorded
    from steps as s
    left join _marked as m on s.run = m.run and s.rank = m.rank and s.step = m.step
    where s.phase = 'train' and has_valid_interval(s.start_ns, s.end_ns)
),
_placed as (
    select
        *,
        start_ns < min(start_ns) filter (is_recorded) over (partition by run, rank) as is_before,
        start_ns > max(start_ns) filter (is_recorded) over (partition by run, rank) as is_after
    from _timed
),
_sides as (
    select
        run,
        rank,
        count(*) filter (is_recorded) as recorded_steps,
        quantile_disc(work_ns, 0.5) filter (is_recorded) as recorded_ns,
        count(*) filter (is_before) as before_steps,
        quantile_disc(work_ns, 0.5) filter (is_before) as before_ns,
        count(*) filter (is_after) as after_steps,
        quantile_disc(work_ns, 0.5) filter (is_after) as after_ns,
        quantile_disc(work_ns, 0.75) filter (not is_recorded) as slow_other_ns
    from _placed
    group by run, rank
)
select
    run, rank, recorded_steps, recorded_ns,
    case when before_ns > after_ns then 'before' else 'after' end as other_side,
    case when before_ns > after_ns then before_steps else after_steps end as other_steps,
    greatest(before_ns, after_ns) as other_ns,
    recorded_ns > greatest(1.1 * before_ns, 1.1 * after_ns, slow_other_ns) as is_slower
from _sides
where before_steps > 0 and after_steps > 0 and before_steps + after_steps >= 3;
