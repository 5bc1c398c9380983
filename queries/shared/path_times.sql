-- What the critical path of a run, or of a step of it, is spent on by class, rank and op, and what path_runs has of all of it.
-- /// of one query
-- /// where step = null
-- /// where step_name = "(?i)^(profiler)?step\\s*#?\\s*\\d+$"
with times as (
    select run, class, rank, op, sum(dur_ns) as dur_ns, count(*) as stretches
    from path_rows
    where matches(run, $run) and $step_name is not null and step is not distinct from $step
    group by all
)
select
    t.run, t.class, t.rank, t.op,
    as_bigint(t.dur_ns) as dur_ns,
    t.stretches,
    r.window_ns, r.unknown_ns, r.late_rank, r.late_ns, r.ranks_left_out, r.unexplained_reason, r.clocks_reason
from times as t
join path_runs as r on t.run = r.run and r.step is not distinct from $step
