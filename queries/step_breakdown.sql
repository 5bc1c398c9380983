-- Where the time of each training step goes on each device, and what the step launched.
-- A row is one run, rank, device and step: a marked range, `ProfilerStep#7` of the PyTorch profiler. A step lasts from its
-- start to the start of the next, the last one to its own end; a range of such a name that starts with another one, or lies
-- in it, is no step of its own. A kernel, copy, memset or graph belongs to the step in whose range on the host it was
-- launched, by any thread; without a recorded launch to the step whose range on its stream it starts in, else to none:
-- a row without a step shows what that is. Each nanosecond of `step_ns` counts once, for the first that applies: compute,
-- communication, memory of the step's own rows, rows of other steps or of none, idle; the five parts add up. What a device
-- does for a step after that step (`late_ns`) is in the next one's `other_steps_ns`: the host runs ahead of the device.
-- Where a recording begins while the device is behind, its first steps end before the first row that they launched: what
-- the device did meanwhile is not recorded, and `idle_ns` is NULL; so it is of steps that begin when the last row of the
-- device has ended. Rows outside of a scope count as those of other steps: they hide no communication or memory of a step.
-- /// query
-- title = "Step breakdown"
-- needs = ["annotations"]
-- show = ["run", "rank", "step", "step_ns", "compute_ns", "exposed_comm_ns", "exposed_memory_ns", "idle_ns", "other_steps_ns", "late_ns"]
-- chart = { kind = "stacked", x = "step", y = ["compute_ns", "exposed_comm_ns", "exposed_memory_ns", "other_steps_ns", "idle_ns"], by = "run" }
-- [params]
-- common = ["run", "rank", "device"]
-- skip = { default = 0, about = "leave out that many steps at the beginning of each rank" }
-- step_name = "common"
-- [columns]
-- common = ["run", "rank", "device"]
-- step = "Number of the step; NULL: GPU rows that belong to none."
-- step_ns = "common"
-- compute_ns = "Time in the step in which a kernel of it that does not communicate, or a whole graph, ran."
-- exposed_comm_ns = "Time in the step in which a communication kernel of it ran, and no compute of it."
-- exposed_memory_ns = "Time in the step in which a copy or memset of it ran, and neither compute nor communication of it."
-- other_steps_ns = "Time in the step in which only rows of other steps, or of none, ran."
-- idle_ns = "Time in the step in which nothing ran; NULL where the device's first row begins later than the step, or work of an earlier step waits for it: what ran before is not recorded. NULL, too, where the step begins behind the device's last row."
-- idle_ratio = "idle_ns / step_ns."
-- gpu_busy_ns = "Time in which a row of the step ran, in the step or after it."
-- late_ns = "The part of gpu_busy_ns outside the step."
-- kernels = "Kernels of the step."
-- kernel_ns = "Their durations, added up."
-- copies = "Copies of the step."
-- copy_ns = "Their durations, added up."
-- memsets = "Memsets of the step."
-- cpu_ns = "The step's own range on the host, up to the next step."
-- api_calls = "Runtime and driver calls begun in that range, by any thread of the process."
-- api_ns = "Their durations, added up."
-- sync_ns = "The part of api_ns in calls that wait: names with Synchronize."
-- name = "Name of the range."
-- window_idle_ns = "The part of idle_ns between the first and the last row of the device, its window."
-- [report]
-- section = "time"
-- order = 2
-- show_if = "device is not null"
-- without = "step_breakdown is shown where a step has rows of a GPU: record CPU and CUDA activities together; for the CPU, see cpu_breakdown"
-- ok_text = "No step leaves its device idle for more than 20 % of it, before the first and behind the last recorded row of the device aside."
-- unknown = "How long a step leaves its device idle is not known: no step was recorded with a device. For the CPU, see its time breakdown."
-- [[report.findings]]
-- when = "window_idle_ns > 0.2 * nullif(step_ns, 0)"
-- by = "window_idle_ns"
-- cost = { ns = "window_idle_ns", adds = true, topics = ["data", "host", "launches", "dependency"], leads = false }
-- next = "idle_causes"
-- text = "[{where}: ]in step {step} the device is idle for {window_idle_ns of step_ns}."
-- advice = "Compare with waiting for data, and with the causes of idle time."
-- ///
with all_steps as materialized (
    from recorded_steps($run, $rank, $step_name)
),
processes as materialized (
    select distinct process, run, source, rank, pid from all_steps
),
activity as not materialized (  -- each use reads only its own kinds and columns
    select
        run, source, rank, pid, device, stream, kind, name, start_ns, end_ns, dur_ns, correlation,
        {'pid': pid, 'stream': stream, 'correlation': correlation} as part
    from gpu_activity
    where matches(run, $run) and matches(rank, $rank) and matches(device, $device)
),
others as not materialized (  -- of a scope: what runs outside of it
    select run, source, rank, pid, device, start_ns, end_ns
    from out_of_scope_activity
    where matches(run, $run) and matches(rank, $rank) and matches(device, $device)
),
lanes as materialized (  -- the devices of each process with steps; one without devices has none, and ranks without steps are not read
    select (row_number() over (order by p.process, d.device))::integer as lane, p.process, p.run, p.source, p.rank, p.pid, d.device
    from (
        select run, source, rank, pid, device from activity semi join processes using (rank)
        union
        select run, source, rank, pid, device from others semi join processes using (rank)
    ) as d
    join processes as p on d.run = p.run and d.source = p.source and d.rank = p.rank and d.pid is not distinct from p.pid
),
slots as materialized (  -- a step on a device: even numbers, in the order of lanes and time; the odd one after a lane's last
    select l.lane, s.id as step_id, s.start_ns, s.end_ns, 2 * row_number() over (order by l.lane, s.place) as slot
    from all_steps as s
    join lanes as l using (process)
),
outside as materialized (  -- what belongs to no step: rows of two processes of one source that share a device go together
    select lane, -dense_rank() over (order by run, source, rank, device) as slot from lanes
),
executions as not materialized (
    select run, source, rank, device, name, start_ns, end_ns, dur_ns, pid, stream, correlation, part
    from activity
    where kind = 'kernel'
),
gpu_rows as (  -- the layer of each row: of two that run at once the lower one counts
    select
        run, source, rank, device, part, start_ns, end_ns, 'kernel' as kind,
        (case when class = 'communication' then 1 else 0 end)::tinyint as layer
    from with_class('executions')
    union all
    select run, source, rank, device, part, start_ns, end_ns, kind, (case when kind = 'graph' then 0 else 2 end)::tinyint
    from activity
    where kind <> 'kernel'
),
calls as (  -- each call, and the step in whose range it began: 0 where it began in none
    select
        a.process, a.correlation, a.start_ns, a.dur_ns, a.waits,
        case when a.start_ns < s.range_end_ns then s.id else 0 end as step_id
    from (
        select p.process, a.correlation, a.start_ns, a.dur_ns, a.name like '%Synchronize%' as waits
        from api_calls as a
        join processes as p on a.run = p.run and a.source = p.source and a.rank = p.rank and a.pid is not distinct from p.pid
        where a.api in ('runtime', 'driver') and matches(a.run, $run) and matches(a.rank, $rank) and has_valid_interval(a.start_ns, a.end_ns)
    ) as a
    asof left join all_steps as s on a.process = s.process and a.start_ns >= s.start_ns
),
launches as (
    select process, correlation, nullif(arg_min(step_id, start_ns), 0) as step_id
    from calls
    where correlation is not null
    group by process, correlation
),
launched as materialized (
    select l.lane, g.part.stream as stream, g.kind, g.layer, g.start_ns, g.end_ns, c.step_id
    from gpu_rows as g
    join lanes as l
        on g.run = l.run and g.source = l.source and g.rank = l.rank and g.part.pid is not distinct from l.pid
        and g.device is not distinct from l.device
    left join launches as c on l.process = c.process and g.part.correlation = c.correlation
),
gpu_ranges as (
    select l.lane, l.process, m.stream, m.name, m.start_ns, m.end_ns
    from annotations as m
    join lanes as l
        on m.run = l.run and m.source = l.source and m.rank = l.rank and m.pid is not distinct from l.pid
        and m.device is not distinct from l.device
    where m.scope = 'gpu' and has_valid_interval(m.start_ns, m.end_ns)
),
gpu_marks as (  -- of steps with one name the one that began last before the range, else the first
    select m.lane, m.stream, m.start_ns, m.end_ns, coalesce(s.id, f.id) as step_id
    from gpu_ranges as m
    join (select process, name, min(id) as id from all_steps group by process, name) as f using (process, name)
    asof left join all_steps as s on m.process = s.process and m.name = s.name and m.start_ns >= s.start_ns
),
by_mark as (
    select
        u.lane, u.kind, u.layer, u.start_ns, u.end_ns,
        case when u.start_ns < m.end_ns then m.step_id end as step_id
    from launched as u
    asof left join gpu_marks as m
        on u.lane = m.lane and u.stream is not distinct from m.stream and u.start_ns >= m.start_ns
    where u.step_id is null
),
work as materialized (
    select
        r.lane, r.kind, r.layer, r.start_ns, r.end_ns,
        coalesce(s.slot, o.slot) as slot,
        s.start_ns as step_start_ns,
        s.end_ns as step_end_ns
    from (
        select lane, kind, layer, start_ns, end_ns, step_id from launched where step_id is not null
        union all
        from by_mark
    ) as r
    join outside as o using (lane)
    left join slots as s on r.lane = s.lane and r.step_id = s.step_id
),
beside as not materialized (  -- what runs on each device, in a step, in none, or outside of the scope
    select lane, layer, start_ns, end_ns, step_start_ns, step_end_ns from work
    union all
    select l.lane, 0, o.start_ns, o.end_ns, null, null
    from others as o
    join lanes as l
        on o.run = l.run and o.source = l.source and o.rank = l.rank and o.pid is not distinct from l.pid
        and o.device is not distinct from l.device
),
parts as (
    select
        slot,
        coalesce(sum(dur_ns) filter (layer = 0), 0) as compute_ns,
        coalesce(sum(dur_ns) filter (layer = 1), 0) as exposed_comm_ns,
        coalesce(sum(dur_ns) filter (layer = 2), 0) as exposed_memory_ns,
        coalesce(sum(dur_ns) filter (layer = 3), 0) as other_steps_ns
    from layers_of_steps('beside', 'slots')
    group by slot
),
recorded as (  -- when the recorded rows of a device begin and end, and the first step that launched one
    select lane, min(start_ns) as first_ns, max(end_ns) as last_ns, min(step_start_ns) as first_step_ns
    from beside
    where has_valid_interval(start_ns, end_ns)
    group by lane
),
late as (
    select slot, sum(dur_ns) as late_ns from time_outside_steps('work') group by slot
),
sums as (
    select
        slot,
        count(*) filter (kind = 'kernel') as kernels,
        coalesce(sum(measured_ns) filter (kind = 'kernel'), 0) as kernel_ns,
        count(*) filter (kind = 'memcpy') as copies,
        coalesce(sum(measured_ns) filter (kind = 'memcpy'), 0) as copy_ns,
        count(*) filter (kind = 'memset') as memsets
    from (select slot, kind, case when has_valid_interval(start_ns, end_ns) then end_ns - start_ns end as measured_ns from work)
    group by slot
),
host as (
    select
        step_id,
        count(*) as api_calls,
        sum(dur_ns) as api_ns,
        coalesce(sum(dur_ns) filter (waits), 0) as sync_ns
    from calls
    where step_id > 0
    group by step_id
),
step_rows as (
    select
        s.run, s.rank, l.device, s.step, s.start_ns, s.name,
        s.end_ns - s.start_ns as step_ns,
        s.range_end_ns - s.start_ns as cpu_ns,
        l.lane is not null as has_gpu,
        coalesce(
            s.start_ns < f.first_ns
            and (f.first_step_ns < s.start_ns or f.first_step_ns = s.start_ns and s.end_ns <= f.first_ns)
            or s.start_ns >= f.last_ns,
            false
        ) as is_unrecorded,
        greatest(f.first_ns - s.start_ns, 0) + greatest(s.end_ns - f.last_ns, 0) as outside_ns,
        p.compute_ns, p.exposed_comm_ns, p.exposed_memory_ns, p.other_steps_ns, a.late_ns,
        g.kernels, g.kernel_ns, g.copies, g.copy_ns, g.memsets,
        coalesce(h.api_calls, 0) as api_calls,
        coalesce(h.api_ns, 0) as api_ns,
        coalesce(h.sync_ns, 0) as sync_ns
    from all_steps as s
    left join lanes as l using (process)
    left join slots as t on s.id = t.step_id and l.lane = t.lane
    left join recorded as f on l.lane = f.lane
    left join parts as p using (slot)
    left join late as a using (slot)
    left join sums as g using (slot)
    left join host as h on s.id = h.step_id
    where s.place > $skip
    union all by name
    select
        o.run, o.rank, o.device, true as has_gpu,
        sum(a.late_ns) as late_ns,
        sum(g.kernels)::bigint as kernels,
        sum(g.kernel_ns) as kernel_ns,
        sum(g.copies)::bigint as copies,
        sum(g.copy_ns) as copy_ns,
        sum(g.memsets)::bigint as memsets
    from (select distinct slot, run, rank, device from outside join lanes using (lane)) as o
    join sums as g using (slot)
    left join late as a using (slot)
    group by o.run, o.rank, o.device
),
figures as (
    select
        run, rank, device, step, start_ns, name, step_ns, cpu_ns, api_calls, api_ns, sync_ns, has_gpu,
        case when has_gpu and step_ns is not null then coalesce(compute_ns, 0) end as compute_ns,
        case when has_gpu and step_ns is not null then coalesce(exposed_comm_ns, 0) end as exposed_comm_ns,
        case when has_gpu and step_ns is not null then coalesce(exposed_memory_ns, 0) end as exposed_memory_ns,
        case when has_gpu and step_ns is not null then coalesce(other_steps_ns, 0) end as other_steps_ns,
        case
            when has_gpu and not is_unrecorded
                then step_ns - coalesce(compute_ns, 0) - coalesce(exposed_comm_ns, 0) - coalesce(exposed_memory_ns, 0) - coalesce(other_steps_ns, 0)
        end as idle_ns,
        outside_ns,
        case when has_gpu then coalesce(late_ns, 0) end as late_ns,
        coalesce(kernels, 0) as kernels,
        coalesce(kernel_ns, 0) as kernel_ns,
        coalesce(copies, 0) as copies,
        coalesce(copy_ns, 0) as copy_ns,
        coalesce(memsets, 0) as memsets
    from step_rows
)
select
    run, rank, device, step, step_ns,
    as_bigint(compute_ns) as compute_ns,
    as_bigint(exposed_comm_ns) as exposed_comm_ns,
    as_bigint(exposed_memory_ns) as exposed_memory_ns,
    as_bigint(other_steps_ns) as other_steps_ns,
    as_bigint(idle_ns) as idle_ns,
    idle_ns / nullif(step_ns, 0) as idle_ratio,
    as_bigint(coalesce(compute_ns + exposed_comm_ns + exposed_memory_ns, 0) + late_ns) as gpu_busy_ns,
    case when step_ns is not null then as_bigint(late_ns) end as late_ns,
    kernels,
    as_bigint(kernel_ns) as kernel_ns,
    copies,
    as_bigint(copy_ns) as copy_ns,
    memsets, cpu_ns, api_calls,
    as_bigint(api_ns) as api_ns,
    as_bigint(sync_ns) as sync_ns,
    name,
    case when idle_ns is not null then as_bigint(greatest(idle_ns - outside_ns, 0)) end as window_idle_ns
from figures
order by run, rank, device, figures.start_ns nulls last, step
