-- Where the time of each device goes from the first kernel of a step to that of the next one.
-- A row is one run, rank, device and step; window_ns and its parts are NULL where the step has no kernel. Each nanosecond
-- counts once: for compute, communication, memory, else for idle, as gpu_breakdown counts. gpu_busy_ns is the time in which a
-- row of the step runs, in its window or after it.
with all_steps as materialized (
    from steps_of('annotations', $step_name)
),
activity as materialized (
    select
        row_number() over () as id, run, source, rank, pid, device, stream, kind, name, start_ns, end_ns, dur_ns, correlation
    from gpu_activity
),
lanes as materialized (
    select (row_number() over (order by run, source, rank, pid, device))::integer as lane, run, source, rank, pid, device
    from (select distinct run, source, rank, pid, device from activity)
),
work as materialized (
    select
        l.lane, a.start_ns, a.end_ns, a.kind, a.step_id, s.place,
        (case when a.kind in ('memcpy', 'memset') then 2 when a.class = 'communication' then 1 else 0 end)::tinyint as layer
    from with_class_and_step('activity', 'all_steps') as a
    join lanes as l
        on a.run = l.run and a.source = l.source and a.rank = l.rank and a.pid is not distinct from l.pid
        and a.device is not distinct from l.device
    left join all_steps as s on a.step_id = s.id
    where has_valid_interval(a.start_ns, a.end_ns)
),
stretches as materialized (
    from step_stretches('work')
),
in_steps as materialized (
    select row_number() over (order by lane, step_id) as number, lane, step_id
    from (select distinct lane, step_id from work where step_id is not null)
),
own_rows as (
    select i.number as lane, w.start_ns, w.end_ns from work as w join in_steps as i using (lane, step_id)
)
select
    l.run, l.rank, l.device, i.step_id,
    as_bigint(p.window_ns) as window_ns,
    as_bigint(p.first_ns) as compute_ns,
    as_bigint(p.second_ns) as exposed_comm_ns,
    as_bigint(p.third_ns) as exposed_memory_ns,
    as_bigint(p.idle_ns) as idle_ns,
    as_bigint(b.busy_ns) as gpu_busy_ns
from in_steps as i
join lanes as l using (lane)
join union_times('own_rows') as b on i.number = b.lane
left join layers_of_stretches('work', 'stretches') as p on i.lane = p.lane and i.step_id = p.step_id
order by l.run, l.rank, l.device, i.step_id, l.lane
