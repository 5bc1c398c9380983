-- Recorded steps that take longer than the steps before and after them: what recording costs.
-- A row is one run and rank with a timeline, of which the run folder has the times of 3 other steps or more, on both sides of
-- the recording, where recorded steps take longer by more than a tenth; it is a warning above 1.5 times.
-- /// check
-- title = "Recording slows steps"
-- severity = "info"
-- how_to_fix = "Take times from the steps that are not recorded (table steps), and record fewer kinds of activity: stacks, memory and shapes cost most."
-- ///
select
    run,
    rank,
    recorded_steps as count,
    format(
        '{} a median of {} without waits for data, {:.2f} times the {} of the {} {} the recording: idle time and waits for '
        'the host include what recording costs.',
        count_phrase(recorded_steps, 'recorded step takes', 'recorded steps take'),
        format_duration(recorded_ns), recorded_ns / other_ns, format_duration(other_ns), other_steps,
        other_side
    ) as message,
    case when recorded_ns > 1.5 * other_ns then 'warning' end as severity
from recording_costs('annotations')
semi join recordings using (run, rank)
where is_slower
order by run, rank
