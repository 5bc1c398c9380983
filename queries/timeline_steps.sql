-- Positions of a program's training steps on the axis of the timeline.
-- A row is one run, rank and step. A step lasts from its start to the start of the next, the last one to its own end, as in
-- step_breakdown; it is when the host was in it: the device runs behind. Times count as in timeline, from the first GPU
-- activity of the run, so a step may begin before 0; without any, from the first range of the run, on the same axis.
-- /// query
-- title = "Steps on the timeline"
-- needs = ["annotations"]
-- subject = "when"
-- [params]
-- common = ["run", "rank", "step_name"]
-- [columns]
-- common = ["run", "rank"]
-- step = "Number of the step."
-- at_ns = "Start of the step, since the first GPU activity of the run."
-- step_ns = "common"
-- name = "Name of the range."
-- ///
with marked as (
    select run, source, rank, pid, name, scope, start_ns, end_ns
    from annotations
    where matches(run, $run) and matches(rank, $rank)
),
everything as not materialized (
    select run, source, start_ns, end_ns from gpu_activity where matches(run, $run)
),
placed as materialized (
    from axis_of('everything')
),
ranges as not materialized (
    select run, source, start_ns, end_ns from annotations where matches(run, $run)
),
placed_by_ranges as materialized (
    from axis_of('ranges')
)
select
    s.run, s.rank, s.step,
    as_bigint(s.start_ns::hugeint + coalesce(p.shift_ns, r.shift_ns)) as at_ns,
    as_bigint(s.end_ns::hugeint - s.start_ns) as step_ns,
    s.name
from steps_of('marked', $step_name) as s
left join placed as p on s.run = p.run and s.source = p.source
left join placed_by_ranges as r on s.run = r.run and s.source = r.source
order by s.run, s.rank, at_ns, s.step
