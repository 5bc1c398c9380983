-- How long each training step waits for its data, and whether the devices idle meanwhile.
-- A row is one run, rank, device and step. From a trace: the ranges in which the loop waits for the loader's next batch
-- (`enumerate(DataLoader)#…__next__` of PyTorch, an annotation or an op), each in the steps that it overlaps; with workers a
-- range is what was left to wait for, without it is the loading itself. Ranges outside all steps are in a row without a
-- step. From the collector's own `steps`, those of training: what the loop measured, without a profiler. `wait_ns` is NULL
-- where a rank has no such range at all: then its loader was not recorded, which is no proof that it is fast.
-- /// query
-- title = "Data loader wait"
-- needs = ["annotations", "ops", "steps"]
-- show = ["run", "rank", "device", "step", "wait_ns", "step_ns", "of_step_ratio", "window_idle_ns"]
-- chart = { kind = "bars", x = "step", y = ["wait_ns", "gpu_idle_ns"], by = "run" }
-- [params]
-- common = ["run", "rank", "step_name", "loader_name"]
-- [columns]
-- common = ["run", "rank", "device"]
-- step = "Number of the step; NULL: outside all steps."
-- wait_ns = "Time in the step in which a range of the loader was open, or what the loop measured."
-- step_ns = "Start of the step to the start of the next; of the last one to its end. In a row from `steps` its duration."
-- of_step_ratio = "wait_ns / step_ns."
-- gpu_idle_ns = "The part of wait_ns in which the device ran nothing; NULL without a device."
-- of_wait_ratio = "gpu_idle_ns / wait_ns."
-- waits = "Ranges of the loader that lie in the step, or partly."
-- counted_from = "trace, or steps: the collector's own measure."
-- window_idle_ns = "The part of gpu_idle_ns between the device's first start and its last end in the recording, in a scope or not; NULL without a device."
-- lost_ns = "What the wait costs: window_idle_ns of a device; wait_ns in a run without a device whose process marks its waits."
-- is_left_out = "A row from `steps` that no finding counts: of a rank whose trace has waits of the loader, too, or of a step that the profiler did not record, where it recorded others."
-- [report]
-- section = "host"
-- order = 3
-- row = "step[s]"
-- row_key = "case when not is_left_out then concat_ws(' ', rank, device, step, wait_ns, step_ns) end"
-- ok_text = "No step waits for data for more than 10 % of its time."
-- unknown = "How long the steps wait for data is not known: no wait of a step for its loader was recorded, which is no proof that the loader is fast. Iterate over PyTorch's DataLoader inside the profiler, or record with `tracelab collect`."
-- [[report.findings]]
-- when = "wait_ns > 0.1 * nullif(step_ns, 0) and not is_left_out"
-- by = "wait_ns"
-- cost = { ns = "lost_ns", rows = "step is not null and not is_left_out", of = "case when counted_from = 'steps' and lost_ns is not null and not is_left_out then step_ns end", adds = true, topics = ["data"], detail = 2 }
-- text = "[{where}: ]step {step} waits for data for {wait_ns of step_ns} of its time[; its GPU idles for {window_idle_ns} of that within its window]."
-- every = "{where} wait for data for {wait_ns of step_ns} of their time[, longest in step {step} of rank {rank}][; of that the GPUs idle for {window_idle_ns of wait_ns} within their windows]."
-- advice = "More loader workers, `persistent_workers`, a faster decoder, or a cache of what is decoded."
-- what_if = "no_data_waits"
-- ///
with marked as (
    select run, source, rank, pid, tid, name, scope, start_ns, end_ns
    from annotations
    where matches(run, $run) and matches(rank, $rank)
),
all_steps as materialized (
    from steps_of('marked', $step_name)
),
loader_names as (  -- the expression looks at each distinct name once
    select name
    from (select distinct name from marked where scope = 'cpu' union select distinct name from ops)
    where regexp_matches(name, $loader_name)
),
ranges as materialized (
    select row_number() over () as id, run, source, rank, pid, start_ns, end_ns
    from (
        select run, source, rank, pid, start_ns, end_ns from marked semi join loader_names using (name) where scope = 'cpu'
        union  -- one wait may be in both tables
        select run, source, rank, pid, start_ns, end_ns
        from ops
        semi join loader_names using (name)
        where matches(run, $run) and matches(rank, $rank)
    )
    where has_valid_interval(start_ns, end_ns)
),
process_ranges as (
    from with_process('ranges', 'all_steps')
),
pieces as materialized (
    select id, step_id, start_ns, end_ns from split_at_steps('process_ranges', 'all_steps')
),
activity as materialized (
    select run, source, rank, pid, device, start_ns, end_ns
    from gpu_activity
    where matches(run, $run) and matches(rank, $rank)
),
all_activity as (  -- what runs outside of a scope leaves no device idle
    select run, source, rank, device, start_ns, end_ns from activity
    union all
    select run, source, rank, device, start_ns, end_ns from out_of_scope_activity
),
device_windows as (  -- that of the recording: a wait before the first row of a scope leaves its device idle, too
    select run, source, rank, device, min(start_ns) as first_ns, max(end_ns) as last_ns
    from intervals('all_activity')
    group by run, source, rank, device
),
devices_seen as (
    select s.*, w.first_ns, w.last_ns
    from (select distinct run, source, rank, pid, device, true as has_gpu from activity) as s
    left join device_windows as w
        on s.run = w.run and s.source = w.source and s.rank = w.rank and s.device is not distinct from w.device
),
whole_waits as materialized (  -- `part`: the step, or -1 for the whole range, in a step or not
    select
        r.run, r.source, r.rank, r.pid, d.device, coalesce(d.has_gpu, false) as has_gpu, p.part, p.start_ns, p.end_ns,
        d.first_ns, d.last_ns
    from (
        select id, step_id as part, start_ns, end_ns from pieces
        union all
        select id, -1, start_ns, end_ns from ranges
    ) as p
    join ranges as r using (id)
    left join devices_seen as d
        on r.run = d.run and r.source = d.source and r.rank = d.rank and r.pid is not distinct from d.pid
),
waits as (  -- a part of -3 - part has what of it lies in the device's window
    select run, source, rank, device, part, start_ns, end_ns from whole_waits
    union all
    select run, source, rank, device, -3 - part, greatest(start_ns, first_ns), least(end_ns, last_ns)
    from whole_waits
    where greatest(start_ns, first_ns) < least(end_ns, last_ns)
),
counts as (
    select run, rank, device, part, bool_or(has_gpu) as has_gpu, count(*) as waits
    from whole_waits
    group by run, rank, device, part
),
clipped as materialized (
    from clip_to('waits', 'all_activity')
),
found_waits as (
    select
        c.run, c.rank, c.device, c.part, c.waits,
        i.busy_ns as wait_ns,
        case when c.has_gpu then i.busy_ns - i.inside_ns end as gpu_idle_ns,
        case when c.has_gpu then coalesce(w.busy_ns - w.inside_ns, 0) end as window_idle_ns
    from counts as c
    join clipped as i
        on c.run = i.run and c.rank = i.rank and c.device is not distinct from i.device and c.part = i.part
    left join clipped as w
        on c.run = w.run and c.rank = w.rank and c.device is not distinct from w.device and -3 - c.part = w.part
),
in_steps as (
    select
        run, rank, device,
        sum(wait_ns) as wait_ns,
        sum(gpu_idle_ns) as gpu_idle_ns,
        sum(window_idle_ns) as window_idle_ns
    from found_waits
    where part >= 0
    group by run, rank, device
),
beside as (
    select r.run, r.rank, count(*) as waits
    from ranges as r
    left join (select id, sum(end_ns - start_ns) as inside_ns from pieces group by id) as p using (id)
    where r.end_ns - r.start_ns > coalesce(p.inside_ns, 0)
    group by r.run, r.rank
),
recorded as (
    select distinct run, rank from ranges
),
step_devices as (
    select s.run, s.rank, d.device, coalesce(d.has_gpu, false) as has_gpu, s.id, s.step, s.start_ns, s.end_ns - s.start_ns as step_ns
    from all_steps as s
    left join devices_seen as d
        on s.run = d.run and s.source = d.source and s.rank = d.rank and s.pid is not distinct from d.pid
),
answers as (
    select
        s.run, s.rank, s.device, s.step, s.start_ns, s.step_ns,
        case when r.run is not null then coalesce(w.wait_ns, 0) end as wait_ns,
        case when r.run is not null and s.has_gpu then coalesce(w.gpu_idle_ns, 0) end as gpu_idle_ns,
        case when r.run is not null and s.has_gpu then coalesce(w.window_idle_ns, 0) end as window_idle_ns,
        coalesce(w.waits, 0) as waits,
        'trace' as counted_from,
        null as is_recorded
    from step_devices as s
    left join recorded as r on s.run = r.run and s.rank = r.rank
    left join found_waits as w
        on s.run = w.run and s.rank = w.rank and s.device is not distinct from w.device and s.id = w.part
    union all
    select
        a.run, a.rank, a.device, null, null, null,
        a.wait_ns - coalesce(i.wait_ns, 0),
        a.gpu_idle_ns - coalesce(i.gpu_idle_ns, 0),
        a.window_idle_ns - coalesce(i.window_idle_ns, 0),
        b.waits, 'trace', null
    from found_waits as a
    join beside as b on a.run = b.run and a.rank = b.rank
    left join in_steps as i on a.run = i.run and a.rank = i.rank and a.device is not distinct from i.device
    where a.part = -1 and a.wait_ns > coalesce(i.wait_ns, 0)
    union all
    select
        run, rank, null, step, start_ns,
        case when has_valid_interval(start_ns, end_ns) then dur_ns end,
        data_wait_ns, null, null, null, 'steps', profiler_state is not distinct from 'recording'
    from steps
    where phase = 'train' and data_wait_ns is not null and matches(run, $run) and matches(rank, $rank)
)
select
    run, rank, device, step,
    as_bigint(wait_ns) as wait_ns,
    step_ns,
    wait_ns / nullif(step_ns, 0) as of_step_ratio,
    as_bigint(gpu_idle_ns) as gpu_idle_ns,
    gpu_idle_ns / nullif(wait_ns, 0) as of_wait_ratio,
    waits, counted_from,
    as_bigint(window_idle_ns) as window_idle_ns,
    as_bigint(
        case when window_idle_ns is not null then window_idle_ns when not marks_on_device then wait_ns end
    ) as lost_ns,
    counted_from = 'steps' and (has_trace or (has_recorded and not is_recorded)) as is_left_out
from (
    select
        *,
        bool_or(window_idle_ns is not null) over (partition by run) as marks_on_device,
        bool_or(counted_from = 'trace' and wait_ns is not null) over (partition by run, rank) as has_trace,
        coalesce(bool_or(is_recorded) over (partition by run, rank), false) as has_recorded
    from answers
)
order by run, rank, device, counted_from desc, start_ns nulls last, step
