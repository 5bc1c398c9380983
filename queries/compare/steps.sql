-- Steps of each run, and which of them count.
-- A row is one run, rank and step, as of counted_steps(); `step_id` is its number in all queries of this folder.
with all_steps as materialized (
    from steps_of('annotations', $step_name)
),
activity as materialized (
    select row_number() over () as id, run, source, rank, pid, device, stream, start_ns, end_ns, correlation from gpu_activity
),
stepped as materialized (
    select id, step_id from with_step('activity', 'all_steps')
),
work as materialized (
    select run, step_id, start_ns, end_ns from activity left join stepped using (id)
),
completed as (
    from completed_steps('all_steps', 'work')
)
select step_id, run, rank, place, step_ns, number, left_out
from counted_steps('completed')
order by run, rank, place
