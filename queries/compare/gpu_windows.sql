-- Where the time of each device goes from the first kernel of a step to that of the next one.
-- A row is one run, rank, device and step with kernels; `place` is as in gpu_rows. The window of the last step ends with its
-- own last row. A host runs ahead of its device, so what a device does in a step is no part of that step's time on the host.
-- Each nanosecond counts once: for compute, communication, memory, else for idle, as gpu_breakdown counts.
with marked as (
    select run, source, rank, pid, name, scope, start_ns, end_ns from annotations
),
all_steps as materialized (
    from steps_of('marked', $step_name)
),
places as (
    select id, row_number() over (partition by run, rank order by start_ns, id) as step_place from all_steps
),
activity as materialized (
    select
        row_number() over () as id, run, source, rank, pid, device, stream, kind, name, start_ns, end_ns, dur_ns, correlation
    from gpu_activity
),
executions as (
    select run, source, rank, pid, device, stream, name, start_ns, end_ns, dur_ns, correlation, id as part
    from activity
    where kind = 'kernel'
),
classes as (
    select part as id, class from with_class('executions')
),
stepped as materialized (
    select id, step_id from with_step('activity', 'all_steps')
),
lanes as materialized (
    select (row_number() over (order by run, source, rank, pid, device))::integer as lane, run, source, rank, pid, device
    from (select distinct run, source, rank, pid, device from activity)
),
work as materialized (
    select
        l.lane, a.start_ns, a.end_ns, a.kind, p.step_place,
        (case when a.kind in ('memcpy', 'memset') then 2 when c.class = 'communication' then 1 else 0 end)::tinyint as layer
    from activity as a
    join lanes as l
        on a.run = l.run and a.source = l.source and a.rank = l.rank and a.pid is not distinct from l.pid
        and a.device is not distinct from l.device
    left join classes as c using (id)
    left join stepped as s using (id)
    left join places as p on s.step_id = p.id
    where has_valid_interval(a.start_ns, a.end_ns)
),
begun as (
    select lane, step_place, min(start_ns) filter (kind in ('kernel', 'graph')) as first_ns, max(end_ns) as last_ns
    from work
    where step_place is not null
    group by lane, step_place
    having first_ns is not null
),
ordered as (  -- a window never begins before that of an earlier step
    select lane, step_place, max(first_ns) over earlier as start_ns, max(last_ns) over earlier as last_ns
    from begun
    window earlier as (partition by lane order by step_place rows between unbounded preceding and current row)
),
slots as materialized (
    select
        lane, step_place, start_ns,
        coalesce(lead(start_ns) over (partition by lane order by step_place), last_ns) as end_ns,
        2 * row_number() over (order by lane, step_place) as slot
    from ordered
),
sums as (
    select slot, layer, sum(dur_ns) as dur_ns from layers_in_steps('work', 'slots') group by slot, layer
)
select
    l.run, l.rank, l.device,
    s.step_place as place,
    as_bigint(s.end_ns - s.start_ns) as window_ns,
    as_bigint(coalesce(sum(t.dur_ns) filter (t.layer = 0), 0)) as compute_ns,
    as_bigint(coalesce(sum(t.dur_ns) filter (t.layer = 1), 0)) as exposed_comm_ns,
    as_bigint(coalesce(sum(t.dur_ns) filter (t.layer = 2), 0)) as exposed_memory_ns,
    as_bigint(coalesce(sum(t.dur_ns) filter (t.layer = 3), 0)) as idle_ns
from slots as s
join lanes as l using (lane)
left join sums as t using (slot)
group by l.run, l.rank, l.device, l.lane, s.step_place, s.start_ns, s.end_ns
order by l.run, l.rank, l.device, place
