-- Where the time of each training step goes on each device, and what the step launched.
-- A row is one run, rank, device and step: a marked range, `ProfilerStep#7` of the PyTorch profiler. A step lasts from its
-- start to the start of the next, the last one to its own end. A kernel, copy, fill or graph belongs to the step in whose
-- range on the host it was launched, by whatever thread; without a recorded launch to the step whose range on its stream
-- it starts in, else to none: a row without a step shows what that is. Each nanosecond of `step_ns` counts once, for the
-- first that applies: compute, communication, memory of the step's own rows, rows of other steps or of none, idle; the five
-- parts add up. What a device does for a step after that step (`late_ns`) is in the next one's `other_steps_ns`: the host
-- runs ahead of the device.
-- /// query
-- title = "Step breakdown"
-- needs = ["annotations"]
-- chart = { kind = "stacked", x = "step", y = ["compute_ns", "exposed_comm_ns", "exposed_memory_ns", "other_steps_ns", "idle_ns"], by = "run" }
-- [params]
-- run = { type = "text", about = "only this run" }
-- rank = { type = "integer", example = 0, about = "only this rank" }
-- device = { type = "integer", about = "only this device" }
-- skip = { default = 0, about = "leave out that many steps at the beginning of each rank" }
-- step_name = { default = "(?i)^(profiler)?step\\s*#?\\s*\\d+$", about = "a range is a step where this regular expression finds its name" }
-- [columns]
-- run = "The run."
-- rank = "Rank of the process."
-- device = "Ordinal of the GPU as the process sees it."
-- step = "Number of the step; NULL: GPU rows that belong to none."
-- step_ns = "Start of the step to the start of the next; of the last one to its end."
-- compute_ns = "Time in the step in which a kernel of it that does not communicate, or a whole graph, ran."
-- exposed_comm_ns = "Time in the step in which a communication kernel of it ran, and no compute of it."
-- exposed_memory_ns = "Time in the step in which a copy or fill of it ran, and neither compute nor communication of it."
-- other_steps_ns = "Time in the step in which only rows of other steps, or of none, ran."
-- idle_ns = "Time in the step in which nothing ran."
-- idle_ratio = "idle_ns / step_ns."
-- gpu_busy_ns = "Time in which a row of the step ran, in the step or after it."
-- late_ns = "The part of gpu_busy_ns outside the step."
-- kernels = "Kernels of the step."
-- kernel_ns = "Their durations, added up."
-- copies = "Copies of the step."
-- copy_ns = "Their durations, added up."
-- fills = "Fills of the step."
-- cpu_ns = "The step's own range on the host, up to the next step."
-- api_calls = "Runtime and driver calls begun in that range, by any thread of the process."
-- api_ns = "Their durations, added up."
-- sync_ns = "The part of api_ns in calls that wait: names with Synchronize."
-- name = "Name of the range."
-- ///
with marked as (
    select run, source, rank, pid, name, scope, start_ns, end_ns
    from annotations
    where picked(run, $run) and picked(rank, $rank)
),
all_steps as materialized (
    from steps_of('marked', $step_name)
),
activity as (
    select row_number() over () as id, run, source, rank, pid, device, stream, kind, name, start_ns, end_ns, dur_ns, correlation
    from gpu_activity
    where picked(run, $run) and picked(rank, $rank) and picked(device, $device)
),
gpu_rows as materialized (
    from of_processes('activity', 'all_steps')
),
api as not materialized (
    select run, source, rank, pid, tid, name, correlation, start_ns, end_ns, dur_ns
    from api_calls
    where api in ('runtime', 'driver') and picked(run, $run) and picked(rank, $rank) and measured(start_ns, end_ns)
),
launched as (
    select g.id, g.process, l.at_ns
    from gpu_rows as g
    join launched_from('api') as l
        on g.run = l.run and g.source = l.source and g.pid is not distinct from l.pid and g.correlation = l.correlation
),
by_launch as materialized (
    select l.id, case when l.at_ns < s.range_end_ns then s.id end as step_id
    from launched as l
    asof left join all_steps as s on l.process = s.process and l.at_ns >= s.start_ns
),
gpu_marks as (
    select s.process, m.device, m.stream, m.start_ns, m.end_ns, s.id as step_id
    from annotations as m
    join all_steps as s
        on m.run = s.run and m.source = s.source and m.rank = s.rank and m.pid is not distinct from s.pid and m.name = s.name
    where m.scope = 'gpu' and measured(m.start_ns, m.end_ns)
),
unplaced as (
    select g.id, g.process, g.device, g.stream, g.start_ns
    from gpu_rows as g
    anti join by_launch as b on g.id = b.id and b.step_id is not null
),
by_mark as (
    select u.id, case when u.start_ns < m.end_ns then m.step_id end as step_id
    from unplaced as u
    asof join gpu_marks as m
        on u.process = m.process and u.device is not distinct from m.device and u.stream is not distinct from m.stream
        and u.start_ns >= m.start_ns
),
belongs as materialized (
    select id, step_id from by_launch where step_id is not null
    union all
    select id, step_id from by_mark where step_id is not null
),
executions as (
    select run, source, rank, pid, device, stream, name, start_ns, end_ns, dur_ns, correlation, id as part
    from gpu_rows
    where kind = 'kernel'
),
kinds as (  -- the layer of each row: of two that run at once the lower one counts
    select part as id, case when class = 'communication' then 1 else 0 end as layer from classified('executions')
    union all
    select id, case when kind = 'graph' then 0 else 2 end from gpu_rows where kind <> 'kernel'
),
lanes as materialized (
    select (row_number() over (order by s.id, d.device))::integer as lane, s.id as step_id, d.device, d.process is not null as has_gpu
    from all_steps as s
    left join (select distinct process, device from gpu_rows) as d using (process)
),
pieces as (
    select l.lane, p.start_ns, p.end_ns, case when p.step_id = b.step_id then k.layer else 3 end as layer
    from cut_to_steps('gpu_rows', 'all_steps') as p
    join gpu_rows as g using (id)
    join kinds as k using (id)
    left join belongs as b using (id)
    join lanes as l on p.step_id = l.step_id and g.device is not distinct from l.device
),
layer_time as (
    select lane, layer, sum(dur_ns) as dur_ns
    from lowest_layers('pieces')
    group by lane, layer
),
parts as (
    select
        lane,
        coalesce(sum(dur_ns) filter (layer = 0), 0) as compute_ns,
        coalesce(sum(dur_ns) filter (layer = 1), 0) as exposed_comm_ns,
        coalesce(sum(dur_ns) filter (layer = 2), 0) as exposed_memory_ns,
        coalesce(sum(dur_ns) filter (layer = 3), 0) as other_steps_ns
    from layer_time
    group by lane
),
work as (
    select
        g.run, g.source, g.rank, g.device, g.kind, g.start_ns, g.end_ns, b.step_id as part,
        case when measured(g.start_ns, g.end_ns) then g.dur_ns end as measured_ns
    from gpu_rows as g
    left join belongs as b using (id)
),
sums as (
    select
        run, rank, device, part,
        count(*) filter (kind = 'kernel') as kernels,
        coalesce(sum(measured_ns) filter (kind = 'kernel'), 0) as kernel_ns,
        count(*) filter (kind = 'memcpy') as copies,
        coalesce(sum(measured_ns) filter (kind = 'memcpy'), 0) as copy_ns,
        count(*) filter (kind = 'memset') as fills
    from work
    group by run, rank, device, part
),
calls as (
    select s.id as step_id, a.dur_ns, a.name
    from of_processes('api', 'all_steps') as a
    asof join all_steps as s on a.process = s.process and a.start_ns >= s.start_ns
    where a.start_ns < s.range_end_ns
),
host as (
    select
        step_id,
        count(*) as api_calls,
        sum(dur_ns) as api_ns,
        coalesce(sum(dur_ns) filter (name like '%Synchronize%'), 0) as sync_ns
    from calls
    group by step_id
),
step_rows as (
    select
        s.run, s.rank, l.device, s.id as part, s.step, s.start_ns, s.name,
        s.end_ns - s.start_ns as step_ns,
        s.range_end_ns - s.start_ns as cpu_ns,
        l.has_gpu,
        case when l.has_gpu then coalesce(p.compute_ns, 0) end as compute_ns,
        case when l.has_gpu then coalesce(p.exposed_comm_ns, 0) end as exposed_comm_ns,
        case when l.has_gpu then coalesce(p.exposed_memory_ns, 0) end as exposed_memory_ns,
        case when l.has_gpu then coalesce(p.other_steps_ns, 0) end as other_steps_ns,
        coalesce(h.api_calls, 0) as api_calls,
        coalesce(h.api_ns, 0) as api_ns,
        coalesce(h.sync_ns, 0) as sync_ns
    from all_steps as s
    join lanes as l on s.id = l.step_id
    left join parts as p using (lane)
    left join host as h on s.id = h.step_id
    where s.place > $skip
    union all by name
    select run, rank, device, part, true as has_gpu from sums where part is null
)
select
    r.run, r.rank, r.device, r.step, r.step_ns,
    whole(r.compute_ns) as compute_ns,
    whole(r.exposed_comm_ns) as exposed_comm_ns,
    whole(r.exposed_memory_ns) as exposed_memory_ns,
    whole(r.other_steps_ns) as other_steps_ns,
    whole(r.step_ns - r.compute_ns - r.exposed_comm_ns - r.exposed_memory_ns - r.other_steps_ns) as idle_ns,
    (r.step_ns - r.compute_ns - r.exposed_comm_ns - r.exposed_memory_ns - r.other_steps_ns)
        / nullif(r.step_ns, 0) as idle_ratio,
    case when r.has_gpu then found(b.run, b.busy_ns) end as gpu_busy_ns,
    whole(found(b.run, b.busy_ns) - r.compute_ns - r.exposed_comm_ns - r.exposed_memory_ns) as late_ns,
    found(g.run, g.kernels) as kernels,
    whole(found(g.run, g.kernel_ns)) as kernel_ns,
    found(g.run, g.copies) as copies,
    whole(found(g.run, g.copy_ns)) as copy_ns,
    found(g.run, g.fills) as fills,
    r.cpu_ns,
    r.api_calls,
    whole(r.api_ns) as api_ns,
    whole(r.sync_ns) as sync_ns,
    r.name
from step_rows as r
left join sums as g
    on r.run = g.run and r.rank = g.rank and r.device is not distinct from g.device and r.part is not distinct from g.part
left join busy('work') as b
    on r.run = b.run and r.rank = b.rank and r.device is not distinct from b.device and r.part is not distinct from b.part
order by r.run, r.rank, r.device, r.start_ns nulls last, r.step
