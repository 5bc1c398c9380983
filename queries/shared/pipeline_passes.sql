-- The passes of each recorded step on a device: begin_ns of the first forward kernel and end_ns of the last backward one, by the
-- ops that launched them; the backward pass begins at first_backward_ns, and at last_forward_ns both have begun and no forward
-- kernel follows. Of a wanted rank, or of all.
-- /// of one query
-- /// where step_name = "(?i)^(profiler)?step\\s*#?\\s*\\d+$"
with steps as materialized (
    select * from recorded_steps($run, $rank, $step_name) where step is not null
),
executions as not materialized (
    select run, source, rank, pid, device, stream, name, start_ns, end_ns, dur_ns, correlation, kind as part
    from gpu_activity
    where kind in ('kernel', 'graph') and matches(run, $run) and matches(rank, $rank)
),
calls as not materialized (
    select run, source, pid, tid, correlation, start_ns, end_ns
    from api_calls
    where api in ('runtime', 'driver') and matches(run, $run) and matches(rank, $rank)
),
launched as (
    select
        run, source, rank, pid, device, stream, name, start_ns, end_ns, dur_ns, correlation,
        {'kind': part, 'pid': pid, 'tid': call_tid, 'at_ns': call_start_ns} as part
    from with_calls('executions', 'calls')
),
compute as materialized (
    select
        row_number() over () as id,
        run, source, rank, device, start_ns, end_ns,
        part.pid as pid,
        part.tid as tid,
        part.at_ns as at_ns
    from with_class('launched')
    where class <> 'communication' or part.kind = 'graph'
),
backward_ops as (
    select run, source, pid, tid, start_ns, end_ns
    from ops
    where matches(run, $run) and matches(rank, $rank) and starts_with(name, 'autograd::engine::evaluate_function')
),
forward_ops as (
    select run, source, pid, tid, start_ns, end_ns
    from ops
    where matches(run, $run) and matches(rank, $rank) and sequence_number is not null
),
backward as materialized (
    select id from within('compute', 'backward_ops')
),
forward as (
    select id from within('compute', 'forward_ops') anti join backward using (id)
),
phased as (
    select id, true as is_forward from forward
    union all
    select id, false from backward
),
lanes as materialized (
    select (row_number() over (order by run, rank, source, device))::integer as lane, run, source, rank, device
    from (select distinct run, source, rank, device from compute)
),
marks as materialized (
    select l.lane, l.run, l.rank, coalesce(s.pid, -1) as pid, s.step, s.start_ns, s.range_end_ns
    from steps as s
    join lanes as l on s.run = l.run and s.source = l.source and s.rank = l.rank
),
placed as materialized (  -- two numbers join in half the time of four columns
    select l.lane, c.id, coalesce(c.pid, -1) as pid, c.at_ns, c.start_ns, c.end_ns
    from compute as c
    join lanes as l on c.run = l.run and c.source = l.source and c.rank = l.rank and c.device is not distinct from l.device
),
passes as materialized (
    select
        s.lane, s.run, s.rank, s.step,
        min(c.start_ns) filter (p.is_forward) as begin_ns,
        max(c.end_ns) filter (not p.is_forward) as end_ns,
        min(c.start_ns) filter (not p.is_forward) as first_backward_ns,
        greatest(min(c.start_ns) filter (not p.is_forward), max(c.end_ns) filter (p.is_forward)) as last_forward_ns
    from placed as c
    join phased as p on c.id = p.id
    asof join marks as s on c.lane = s.lane and c.pid = s.pid and c.at_ns >= s.start_ns
    where c.at_ns < s.range_end_ns
    group by s.lane, s.run, s.rank, s.step
    having min(c.start_ns) filter (p.is_forward) < max(c.end_ns) filter (not p.is_forward)
)
select
    p.run, l.source, p.rank, l.device, p.step,
    p.begin_ns, p.end_ns, p.first_backward_ns, p.last_forward_ns
from passes as p
join lanes as l on p.lane = l.lane
