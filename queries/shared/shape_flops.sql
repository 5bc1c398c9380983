-- FLOPs of the ops that begin in the time of steps, by their shapes, as mfu --from shapes defines it: a row is one run, rank, device
-- and precision, or more than one. window_ns and steps are of the device; the rest is NULL where no kernel in that time computes.
-- Of a wanted rank, or of all.
-- /// of one query
-- /// of a session of one run
-- /// where device = null
-- /// where ncu = null
-- /// where step_name = "(?i)^(profiler)?step\\s*#?\\s*\\d+$"
with pairs as materialized (
    from timed_pairs($run, $ncu)
),
marks as materialized (
    from step_marks('pairs', $rank, $step_name)
),
ranges as materialized (
    from scope_step_ranges('marks')
),
timed as materialized (
    select run, source, rank, pid, device, name, correlation, external_id, start_ns, end_ns, dur_ns, called_ns
    from kernels_of_steps('pairs', 'ranges', $rank, $device)
),
times as (
    from step_windows('pairs', 'marks', 'ranges', 'timed', $rank, $device)
),
executions as not materialized (
    select o.*
    from (from ops union all from around_ops) as o  -- as scope_ops(); the rows of `ops` decide whether a store keeps the sums
    left join ranges as r on o.run = r.run and o.source = r.source and o.rank = r.rank
    where
        matches(o.run, $run) and matches(o.rank, $rank)
        and (r.run is null or o.start_ns between r.start_ns and r.end_ns or exists (from around_api_calls))
),
activity as materialized (
    select
        row_number() over () as id, k.run, k.source, k.rank, k.pid, k.device, k.correlation, k.external_id, k.start_ns,
        k.dur_ns as gpu_ns, 'kernel' as kind, k.name
    from timed as k
    join classify('timed') as c on k.name is not distinct from c.name
    where c.class <> 'communication'
),
api as not materialized (
    from filtered_calls($run, $rank)
),
replayed as materialized (
    from known_replays($run, $rank, null) semi join timed using (run, source, rank, device, correlation)
),
costs as (
    select
        run, rank, device, precision,
        sum(gpu_ns) as kernel_ns,
        sum(gpu_ns) filter (flop is not null) as matched_ns,
        sum(flop * calls) as flop
    from all_op_costs('executions', 'activity', 'api', 'replayed')
    where gpu_rows > 0
    group by run, rank, device, precision
)
select t.run, t.rank, t.device, t.window_ns, t.steps, c.precision, c.kernel_ns, c.matched_ns, c.flop
from times as t
left join costs as c on t.run = c.run and t.rank = c.rank and t.device is not distinct from c.device
