-- Steps of each run, and which of them count as in a comparison of runs.
-- A row is one run, rank and step, as of counted_steps_alone(): of marked ranges, else as a run folder records them. `runs` are
-- the runs to read, none for all. A scope chooses steps; how long one takes is that of the recording. Where recording makes
-- steps of the rank slower, the columns of recording_costs() have by how much.
with marked as (
    select run, source, rank, pid, name, scope, start_ns, end_ns
    from unscoped_annotations
    where len($runs) = 0 or list_contains($runs, run)
),
chosen as (
    from step_ranges('annotations', $step_name)
),
all_steps as materialized (
    from steps_of('marked', $step_name)
    where run in (select run from chosen)
),
activity as materialized (
    select row_number() over () as id, run, source, rank, pid, device, stream, start_ns, end_ns, correlation
    from unscoped_activity
    where run in (select run from all_steps)
),
stepped as materialized (
    select id, step_id from with_step('activity', 'all_steps')
),
work as materialized (
    select run, step_id, start_ns, end_ns from activity left join stepped using (id)
),
completed as materialized (
    select *
    from completed_steps('all_steps', 'work')
    where step_id in (
        select id from all_steps as s
        join chosen as c
            on s.run = c.run and s.source = c.source and s.rank = c.rank and s.pid is not distinct from c.pid
            and s.start_ns = c.start_ns and s.name = c.name
    )
),
recorded as materialized (  -- each step is its own process: their times were measured one by one, also where they overlap
    select
        row_number() over (order by run, rank, start_ns, step) as id, id as process, run, rank, null::bigint as step, start_ns,
        end_ns
    from steps
    where phase = 'train' and has_valid_interval(start_ns, end_ns) and run not in (select run from all_steps)
        and (len($runs) = 0 or list_contains($runs, run))
),
no_work as (
    select run, id as step_id, start_ns, end_ns from recorded limit 0
),
timed as (
    from completed_steps('recorded', 'no_work')
),
counted as (
    select run, rank, place, step_ns, number, left_out, true as is_marked from counted_steps_alone('completed')
    union all
    select run, rank, place, step_ns, number, left_out, false from counted_steps_alone('timed')
),
costs as (
    from recording_costs('marked') where is_slower
)
select c.*, r.other_side, r.other_steps, r.other_ns, r.recorded_ns
from counted as c
left join costs as r using (run, rank)
