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

-- step_stretches(work): the time that each step takes on a device: from the start of its first kernel or graph to that of the
-- next step; the last one ends with its own last row. A host runs ahead of its device, so what a device does in a step is no
-- part of that step's time on the host. The relation has lane, step_id and place (of the step, in the order of time; NULL for
-- none), kind, start_ns and end_ns. A row is one lane and step with kernels; its time never begins before that of an earlier one.
create or replace macro step_stretches(work) as table
with _begun as (
    select
        lane, step_id, place, min(start_ns) filter (kind in ('kernel', 'graph')) as first_ns, max(end_ns) as last_ns
    from query_table(work)
    where step_id is not null
    group by lane, step_id, place
    having first_ns is not null
),
_ordered as (
    select lane, step_id, place, max(first_ns) over earlier as start_ns, max(last_ns) over earlier as last_ns
    from _begun
    window earlier as (partition by lane order by place rows between unbounded preceding and current row)
)
select lane, step_id, start_ns, coalesce(lead(start_ns) over (partition by lane order by place), last_ns) as end_ns
from _ordered;

-- median_of_steps(times, steps): the median of as many numbers as there are steps: those of a list, and 0 for each other step.
create or replace macro median_of_steps(times, steps) as (
    list_transform(
        [list_sort(coalesce(times, []))],
        lambda sorted: (
            case when (steps - 1) // 2 >= steps - len(sorted) then sorted[(steps - 1) // 2 - steps + len(sorted) + 1] else 0 end
            + case when steps // 2 >= steps - len(sorted) then sorted[steps // 2 - steps + len(sorted) + 1] else 0 end
        ) / 2
    )[1]
);

-- typical_times(series, runs): what things take in a step of two runs. `series` has section, name, place (of the name, NULL
-- for none), run, number (of a counted step, NULL for other time), listed, dur_ns, and each_ns, the time per device or rank;
-- `runs` have run, is_after and steps. A row is one section and name, with counts, sums, and the times in a step of both:
-- the medians over the steps that count, as 0 where it takes no time; the means where a median hides all of it, as what occurs in
-- fewer than half of the steps. Of sections `window` and `breakdown` steps without a time are left out.
create or replace macro typical_times(series, runs) as table
with _sides as (
    select
        s.section, s.name, s.place, r.is_after,
        as_bigint(sum(s.listed)) as listed,
        as_bigint(coalesce(sum(s.dur_ns), 0)) as dur_ns,
        if(s.section in ('window', 'breakdown'), count(s.each_ns) filter (s.number is not null), any_value(r.steps)) as step_count,
        median_of_steps(list(s.each_ns) filter (s.number is not null and s.each_ns is not null), step_count) as median_ns,
        coalesce(sum(s.each_ns) filter (s.number is not null), 0) / nullif(step_count, 0) as mean_ns
    from query_table(series) as s
    join query_table(runs) as r using (run)
    group by s.section, s.name, s.place, r.is_after
),
_paired as (
    select
        coalesce(b.section, a.section) as section,
        coalesce(b.name, a.name) as name,
        coalesce(b.place, a.place) as place,
        case when b.section is null then 0 else b.listed end as before_count,
        case when a.section is null then 0 else a.listed end as after_count,
        coalesce(b.dur_ns, 0) as before_ns,
        coalesce(a.dur_ns, 0) as after_ns,
        coalesce((b.median_ns = 0 and b.mean_ns > 0) or (a.median_ns = 0 and a.mean_ns > 0), false) as is_rare,
        case when b.section is null then 0 when is_rare then b.mean_ns else b.median_ns end as before_each,
        case when a.section is null then 0 when is_rare then a.mean_ns else a.median_ns end as after_each
    from (from _sides where not is_after) as b
    full join (from _sides where is_after) as a on b.section = a.section and b.name is not distinct from a.name
)
select * exclude (is_rare) from _paired;

-- parts_of_stretches(work, stretches): where the time of lanes goes in stretches of it. The work has lane, layer (0 to 2, NULL
-- for none), communicates, start_ns and end_ns; the stretches lane, step_id and start_ns, each lasting to the next one of its
-- lane, and end_ns, which counts for the last one. A row is one stretch: window_ns; first_ns, second_ns and third_ns, the time
-- in which a row of layer 0 runs, else of 1, else of 2; idle_ns, in which none runs; and communication_ns, in which a row runs
-- that communicates, at the same time as others, or not.
create or replace macro parts_of_stretches(work, stretches) as table
with _rows as materialized (  -- what communicates is on a lane of its own, too
    select 2 * lane as lane, layer, start_ns, end_ns from query_table(work) where layer is not null
    union all
    select 2 * lane + 1, 0::tinyint, start_ns, end_ns from query_table(work) where communicates
),
_slots as materialized (
    select lane, step_id, start_ns, end_ns, 2 * row_number() over (order by lane, start_ns, step_id) as slot
    from (
        select 2 * lane as lane, step_id, start_ns, end_ns from query_table(stretches)
        union all
        select 2 * lane + 1, step_id, start_ns, end_ns from query_table(stretches)
    )
),
_sums as (
    select slot, layer, sum(dur_ns) as dur_ns from layers_in_steps('_rows', '_slots') group by slot, layer
)
select
    s.lane // 2 as lane, s.step_id,
    coalesce(sum(t.dur_ns) filter (s.lane % 2 = 0), 0) as window_ns,
    coalesce(sum(t.dur_ns) filter (s.lane % 2 = 0 and t.layer = 0), 0) as first_ns,
    coalesce(sum(t.dur_ns) filter (s.lane % 2 = 0 and t.layer = 1), 0) as second_ns,
    coalesce(sum(t.dur_ns) filter (s.lane % 2 = 0 and t.layer = 2), 0) as third_ns,
    coalesce(sum(t.dur_ns) filter (s.lane % 2 = 0 and t.layer = 3), 0) as idle_ns,
    coalesce(sum(t.dur_ns) filter (s.lane % 2 = 1 and t.layer = 0), 0) as communication_ns
from _slots as s
left join _sums as t using (slot)
group by s.lane // 2, s.step_id;
