-- Two runs side by side: what takes more time or less in the second than in the first, and how comparable they are.
-- A row is one thing of a section, as both runs have it. Section `comparability` lists what the runs have in common; `window`
-- and `breakdown` divide time as gpu_breakdown does; `kernels`, `memcpys` (memsets among them), `collectives` and `annotations`
-- (ranges of threads but those of steps, numbers in their texts as #) add up durations. Of a long section those with the largest difference_ns have
-- rows of their own, the rest is `others`.
-- Where neither run used a GPU, the CPU is compared: `ops` add up each op's own time, without the ops inside it, and
-- `collectives` communication by gloo, MPI or UCC. The breakdown is then of ranks: exposed communication, in which no op computes
-- (one neither of c10d nor of the autograd engine), else waiting for data, else compute, else idle.
-- Runs differ in how much they recorded. So difference_ns is per device, and per step where both runs have steps, ranges that
-- step_name finds: medians over those that count for `tracelab compare`, which have the same figures. A GPU row belongs to the
-- step that launched it, an op or range to that in which it begins; a step on a GPU is from its first kernel to that of the next one.
-- Where a recording has no such ranges, step_kernel counts what the GPU did. Without steps it is a difference of whole
-- recordings, and means little unless these did the same work. Names of kernels are compared as the profilers spell them, or,
-- where two profilers recorded the runs, by kernel_key: the function's own name. Each profiler slows down the host by its own
-- measure, so what depends on how fast the host launches is then refused: `reason` states it, and times are NULL.
-- Two runs of the same program differ, too: whether more or less is slower or faster, `tracelab compare` decides.
-- /// query
-- title = "Run comparison"
-- needs = ["kernels", "memcpys", "memsets", "graph_launches", "ops", "annotations"]
-- show = ["section", "name", "change", "difference_ns", "change_ratio", "before_each_ns", "after_each_ns", "per"]
-- chart = { kind = "bars", x = "name", y = ["difference_ns"], labels = ["difference[ per {per}]"], by = "section", signed = true, joined = "kernels" }
-- hints = [
--     { when = "(from mixes_profilers($before, $after))", text = "two profilers recorded the runs, and each slows down the host by its own measure: times of steps and of the host are refused; record both with one profiler" },
-- ]
-- [params]
-- before = { type = "run", example = "generated-4rank-ddp", about = "the run to compare with; without it the first of a store's two" }
-- after = { type = "run", example = "generated-4rank-nobroadcast", about = "the run that is compared; without it the other one" }
-- common = ["step_name", "loader_name"]
-- step_kernel = { type = "text", about = "count the steps of the GPU by kernels with names in which this regular expression finds something, so many to a step" }
-- same_ratio = { default = 0.05, about = "a change_ratio up to this, up or down, is similar" }
-- short_names = { default = false, about = "compare kernels by their own names alone, whatever recorded them" }
-- top_rows = { default = 10, about = "that many rows of a section are not merged into `others`, those with the largest difference_ns" }
-- rank = "common"
-- device = "common"
-- [columns]
-- section = "comparability, window, breakdown, kernels, ops, memcpys, collectives or annotations."
-- name = "What is compared; `others` adds up what is not listed."
-- change = "added, removed, more, less, similar or refused; of comparability same, different or unknown."
-- difference_ns = "after_each_ns - before_each_ns."
-- change_ratio = "difference_ns / before_each_ns."
-- before_each_ns = "Time in the first run per device (annotations, and runs without a GPU: per rank) and per step: the median over its steps, or the mean of what occurs in fewer than half of them; of runs without steps the whole time."
-- after_each_ns = "The same of the second run."
-- before_count = "How often it occurs in the first run; of the window the devices, or the ranks of runs without a GPU."
-- after_count = "How often it occurs in the second run."
-- before_ns = "Its time in the first run, added up over ranks and devices; of window and breakdown in the steps that count."
-- after_ns = "Its time in the second run, added up in the same way."
-- before_said = "Value in the first run, of comparability."
-- after_said = "Value in the second run, of comparability."
-- before = "The first run."
-- after = "The second run."
-- per = "What difference_ns is per: step, or recording."
-- reason = "Why the difference is refused; NULL where it is not."
-- [report]
-- section = "comparison"
-- order = 1
-- ok_text = "By their names, no kernel and no op differs by 1 % of the time of the first run or more."
-- unknown = "How the work of the two runs differs is not known: no kernel of theirs was compared, and no op."
-- [[report.findings]]
-- when = "case when section = 'kernels' then abs(difference_ns) >= greatest(1, 0.01 * coalesce((select max(before_each_ns) from answer where section = 'window'), 0)) when section = 'ops' and difference_ns is not null then false end"
-- by = "abs(difference_ns)"
-- text = "By their names, the largest difference between the kernels of the two runs is {name}: {difference_ns} per {per}[, from {before_each_ns}][ to {after_each_ns}]."
-- advice = "See first whether the runs are comparable (section `comparability`); then look at that kernel's calls and shapes in both. `tracelab compare` also pairs kernels of different names."
-- [[report.findings]]
-- when = "case when section = 'ops' then abs(difference_ns) >= greatest(1, 0.01 * coalesce((select max(before_each_ns) from answer where section = 'window'), 0)) when section = 'kernels' and difference_ns is not null then false end"
-- by = "abs(difference_ns)"
-- text = "The largest difference between the ops of the two runs is {name}: {difference_ns} per {per}[, from {before_each_ns}][ to {after_each_ns}], without the ops inside it."
-- advice = "See first whether the runs are comparable (section `comparability`); then compare that op's calls in op_summary of both."
-- ///
with chosen as materialized (
    from compared_runs($before, $after)
),
selected as materialized (
    select unnest(list_distinct([before, after])) as run from chosen
),
recorded as (
    select
        run,
        profilers(list(format)) as profiler,
        string_agg(distinct clock, ', ' order by clock) as clock,
        case when bool_and(complete) then 'yes' when not bool_and(complete) then 'no' end as complete
    from sources
    where run in (from selected)
    group by run
),
cards as (
    select run, string_agg(distinct name, ', ' order by name) as name
    from devices
    where run in (from selected) and matches(rank, $rank) and matches(device, $device)
    group by run
),
activity as materialized (
    select
        row_number() over () as id, run, source, rank, pid, device, stream, kind, name, start_ns, end_ns, dur_ns, correlation
    from gpu_activity
    where run in (from selected) and matches(rank, $rank) and matches(device, $device)
),
executions as not materialized (
    select name from activity where kind = 'kernel'
),
ranges as materialized (
    select row_number() over () as id, run, source, rank, pid, name, scope, start_ns, end_ns, dur_ns
    from annotations
    where scope = 'cpu' and run in (from selected) and matches(rank, $rank)
),
cpu_runs as materialized (  -- both runs, where neither used a GPU; else none
    select run from selected where $device is null and not exists (from activity)
),
cpu_ops as materialized (
    select row_number() over () as id, run, source, rank, pid, tid, name, start_ns, end_ns
    from ops
    where run in (from cpu_runs) and matches(rank, $rank)
),
cpu_spans as not materialized (
    select run, source, rank, name, false as is_op, start_ns, end_ns from ranges where run in (from cpu_runs)
    union all
    select run, source, rank, name, true, start_ns, end_ns from cpu_ops
),
cpu_names as (  -- the expressions look at each distinct name once
    select
        name, is_op,
        case
            when is_cpu_communication(name) then 2
            when regexp_matches(name, $loader_name) then 0
            when is_op and is_computing_op(name) then 1
        end::tinyint as layer
    from (select distinct name, is_op from cpu_spans)
),
all_steps as materialized (
    from steps_of('ranges', $step_name)
),
placed as materialized (
    from with_class_and_step('activity', 'all_steps')
),
completed as (
    from completed_steps('all_steps', 'placed')
),
counted as materialized (
    from counted_steps('completed')
),
step_ids as materialized (  -- a row is one step that counts; where whole recordings are compared one is all that has none
    select step_id, number, true as by_step
    from counted
    where number is not null and $step_kernel is null
        and (select count(distinct run) from counted where number is not null) = (select count(*) from selected)
),
step_mode as materialized (
    select exists (from step_ids) as by_step
),
gpu_rows as not materialized (
    select p.run, p.kind, p.name, p.class, p.collective, p.start_ns, p.end_ns, p.dur_ns, if(m.by_step, s.number, 0) as number
    from placed as p
    left join step_ids as s using (step_id)
    cross join step_mode as m
),
begun_ranges as materialized (
    select r.run, r.name, r.start_ns, r.end_ns, r.dur_ns, if(m.by_step, s.number, 0) as number
    from ranges as r
    left join begun_step('ranges', 'all_steps') as b using (id)
    left join step_ids as s using (step_id)
    cross join step_mode as m
),
begun_ops as materialized (
    select o.run, o.source, o.pid, o.tid, o.name, o.start_ns, o.end_ns, if(m.by_step, s.number, 0) as number
    from cpu_ops as o
    left join begun_step('cpu_ops', 'all_steps') as b using (id)
    left join step_ids as s using (step_id)
    cross join step_mode as m
),
op_kinds as materialized (
    select row_number() over () as kind, run, name, number from (select distinct run, name, number from begun_ops)
),
op_calls as materialized (
    select k.kind, o.run, o.source, o.pid, o.tid, o.start_ns, o.end_ns
    from begun_ops as o
    join hint_small('op_kinds') as k
        on o.run = k.run and o.name is not distinct from k.name and o.number is not distinct from k.number
),
measured as not materialized (  -- what a device does, or a rank without one; of layers that run at once the lowest counts
    select
        p.run, p.source, p.rank, case when m.by_step then p.pid end as pid, p.device, p.step_id, s.place, p.kind, p.start_ns, p.end_ns,
        (case when p.kind in ('memcpy', 'memset') then 2 when p.class = 'communication' then 1 else 0 end)::tinyint as layer,
        coalesce(p.class = 'communication', false) as communicates
    from placed as p
    left join all_steps as s on p.step_id = s.id
    cross join step_mode as m
    where has_valid_interval(p.start_ns, p.end_ns)
    union all
    select s.run, s.source, s.rank, null, null, null, null, null, s.start_ns, s.end_ns, n.layer, coalesce(n.layer = 2, false)
    from cpu_spans as s
    join hint_small('cpu_names') as n on s.name is not distinct from n.name and s.is_op = n.is_op
    where has_valid_interval(s.start_ns, s.end_ns)
),
lanes as materialized (
    select (row_number() over (order by run, source, rank, pid, device))::integer as lane, run, source, rank, pid, device
    from (select distinct run, source, rank, pid, device from measured)
),
work as materialized (
    select l.lane, m.layer, m.communicates, m.step_id, m.place, m.kind, m.start_ns, m.end_ns
    from measured as m
    join lanes as l
        on m.run = l.run and m.source = l.source and m.rank = l.rank and m.pid is not distinct from l.pid
        and m.device is not distinct from l.device
),
stretches as materialized (  -- the time of each step on a lane, or of the whole recording
    from step_stretches('work') where (from step_mode)
    union all
    select l.lane, s.id, s.start_ns, s.end_ns
    from all_steps as s
    join lanes as l using (run, source, rank)
    where (from step_mode) and s.run in (from cpu_runs)
    union all
    select lane, null, min(start_ns), max(end_ns) from work where not (from step_mode) group by lane
),
communicating as materialized (
    select lane, 0::tinyint as layer, start_ns, end_ns from work where communicates
),
exposing as materialized (  -- on the CPU ops that compute, also while a step waits for data, and communication below them
    select lane, (layer - 1)::tinyint as layer, start_ns, end_ns from work where layer > 0 and exists (from cpu_runs)
),
parts as (
    from layers_of_stretches('work', 'stretches')
    union all by name
    select lane, step_id, second_ns as cpu_exposed_ns from layers_of_stretches('exposing', 'stretches')
    union all by name
    select lane, step_id, first_ns as communication_ns from layers_of_stretches('communicating', 'stretches')
),
windows as materialized (
    select
        l.run, if(m.by_step, s.number, 0) as number, count(window_ns) as lanes,
        sum(window_ns) as window_ns, sum(first_ns) as first_ns, sum(second_ns) as second_ns, sum(third_ns) as third_ns,
        sum(idle_ns) as idle_ns, sum(communication_ns) as communication_ns, sum(cpu_exposed_ns) as cpu_exposed_ns
    from parts
    join lanes as l using (lane)
    left join step_ids as s using (step_id)
    cross join step_mode as m
    where s.number is not null or not m.by_step
    group by l.run, if(m.by_step, s.number, 0)
),
step_counts as (  -- of the rank that marks most steps
    select
        run,
        sum(steps) as marked,
        coalesce(sum(steps) filter (left_out is null), 0) as counted,
        string_agg(
            format('{} {}', steps, replace(replace(left_out, '_', ' '), 'gpu', 'GPU')), ', ' order by left_out
        ) filter (left_out is not null) as reasons
    from (select run, rank, left_out, count(*) as steps from counted group by run, rank, left_out)
    group by run, rank
    qualify row_number() over (partition by run order by marked desc, rank) = 1
),
kernel_steps as (
    select run, count(*) / count(distinct rank) as steps
    from activity
    where kind = 'kernel' and regexp_matches(name, $step_kernel) and has_valid_interval(start_ns, end_ns)
    group by run
),
lanes_seen as (
    select distinct run, rank, device from activity
    union
    select distinct run, rank, null from cpu_spans
),
lane_counts as (
    select
        l.run,
        count(distinct l.rank) as ranks,
        count(*) as devices,
        count(distinct l.rank) filter (c.run is not null or not m.by_step) as counted_ranks,
        count(*) filter (c.run is not null or not m.by_step) as counted_devices
    from lanes_seen as l
    left join (select distinct run, rank from counted where number is not null) as c using (run, rank)
    cross join step_mode as m
    group by l.run
),
units as materialized (  -- a row is a run, and by what its times are divided
    select
        s.run, l.ranks, l.devices,
        p.run is not null as is_cpu,
        case when m.by_step then n.counted::bigint else 1 end as steps,
        case when count(k.steps) over () = count(*) over () then k.steps end as kernels_to_a_step,
        coalesce(kernels_to_a_step, 1) * nullif(counted_devices, 0) as by_device,
        coalesce(kernels_to_a_step, 1) * nullif(counted_ranks, 0) as by_rank,
        case
            when not m.by_step then format('{:g}', kernels_to_a_step)
            when n.reasons is null then n.counted::varchar
            else format('{} of {} ({})', n.counted, n.marked, n.reasons)
        end as steps_text,
        m.by_step or kernels_to_a_step is not null as is_per_step
    from selected as s
    left join lane_counts as l using (run)
    left join step_counts as n using (run)
    left join kernel_steps as k using (run)
    left join cpu_runs as p using (run)
    cross join step_mode as m
),
sides as (
    select run, steps, false as is_after from units where run = (select before from chosen)
    union all
    select run, steps, true from units where run = (select after from chosen)
),
mixed as materialized (
    from mixes_profilers($before, $after)
),
spelled as (
    select name, if($short_names or (from mixed), kernel_key(name), name) as kernel
    from (select distinct name from executions)
),
kernel_sums as materialized (
    select
        run, number, name, class, collective, count(*) as listed,
        sum(dur_ns) filter (has_valid_interval(start_ns, end_ns)) as dur_ns
    from gpu_rows
    where kind = 'kernel'
    group by run, number, name, class, collective
),
sums as (
    select run, number, 'kernels' as section, kernel as name, sum(listed) as listed, sum(dur_ns) as dur_ns
    from kernel_sums as k
    join spelled as s on k.name is not distinct from s.name
    group by run, number, kernel
    union all
    select run, number, 'collectives', collective, sum(listed), sum(dur_ns)
    from kernel_sums
    where class = 'communication'
    group by run, number, collective
    union all
    select
        run, number, 'memcpys', case kind when 'memcpy' then coalesce(name, 'unknown') else 'memset' end as operation,
        count(*), sum(dur_ns) filter (has_valid_interval(start_ns, end_ns))
    from gpu_rows
    where kind in ('memcpy', 'memset')
    group by run, number, operation
    union all
    select k.run, k.number, 'ops', k.name, sum(t.calls), sum(t.self_ns)
    from self_times('op_calls') as t
    join op_kinds as k using (kind)
    group by k.run, k.number, k.name
    union all
    select
        run, number, 'collectives', cpu_collective(name) as collective,
        count(*), sum(end_ns - start_ns) filter (has_valid_interval(start_ns, end_ns))
    from (
        select run, number, name, start_ns, end_ns from begun_ranges where run in (from cpu_runs)
        union all
        select run, number, name, start_ns, end_ns from begun_ops
    )
    where is_cpu_communication(name)
    group by run, number, collective
    union all
    select
        run, number, 'annotations', regexp_replace(name, '#?\d+', '#', 'g') as text,
        count(*), sum(dur_ns) filter (has_valid_interval(start_ns, end_ns))
    from begun_ranges
    where not coalesce(regexp_matches(name, $step_name), false)
    group by run, number, text
),
window_parts as (
    select
        u.run, if(m.by_step, w.number, 0) as number, m.by_step,
        u.is_cpu,
        if(is_cpu, u.ranks, u.devices) as lanes,
        if(m.by_step, w.lanes, u.by_device) as divisor,
        if(is_cpu, w.second_ns, w.first_ns) as compute_ns,
        if(is_cpu, w.cpu_exposed_ns, w.second_ns) as exposed_ns,
        [
            if(m.by_step, 'gpu_window', 'window_time'), 'compute', 'exposed_communication',
            if(is_cpu, 'data_wait', 'exposed_copies'), 'idle', 'communication', 'overlapped_communication'
        ] as names,
        [
            w.window_ns, compute_ns, exposed_ns, if(is_cpu, w.first_ns + w.third_ns - exposed_ns, w.third_ns), w.idle_ns,
            w.communication_ns, w.communication_ns - exposed_ns
        ] as times
    from units as u
    left join windows as w using (run)
    cross join step_mode as m
    where u.devices > 0
),
series as materialized (
    select
        s.section, s.name, null::bigint as place, s.run, s.number, s.listed, s.dur_ns,
        coalesce(s.dur_ns, 0) / if(s.section = 'annotations', u.by_rank, u.by_device) as each_ns
    from sums as s
    join units as u using (run)
    union all
    select 'window', 'step_time', 0, run, number, null, sum(step_ns), avg(step_ns)
    from counted
    join step_ids using (step_id, number)
    group by run, number
    union all
    select
        section, name, place, run, number, listed, coalesce(dur_ns, 0) as dur_ns, coalesce(dur_ns / divisor, 0) as each_ns
    from (
        select
            unnest(['window', 'breakdown', 'breakdown', 'breakdown', 'breakdown', 'breakdown', 'breakdown']) as section,
            unnest(names) as name,
            unnest([1, 0, 1, 2, 3, 4, 5]) as place,
            unnest([if(coalesce(number, 0) = 0, lanes, null), null, null, null, null, null, null]) as listed,
            unnest(times) as dur_ns,
            run, number, divisor, by_step, is_cpu
        from window_parts
    )
    where not (section = 'window' and by_step and is_cpu)  -- of a rank the step itself
),
paired as materialized (
    from typical_times('series', 'sides')
),
ranked as materialized (
    select
        section, name,
        place is null and $top_rows < row_number() over (
            partition by section
            order by abs(coalesce(after_each, 0) - coalesce(before_each, 0)) desc, name
        ) as is_rest
    from paired
),
listed_series as materialized (
    select
        s.section, r.is_rest, if(r.is_rest, 'others', s.name) as name, s.place, s.run, s.number,
        sum(s.listed) as listed, sum(s.dur_ns) as dur_ns, sum(s.each_ns) as each_ns
    from series as s
    join ranked as r on s.section = r.section and s.name is not distinct from r.name
    group by s.section, r.is_rest, if(r.is_rest, 'others', s.name), s.place, s.run, s.number
),
timed as (
    select
        *,
        (from mixed) and (
            section in ('window', 'ops', 'annotations')
            or (section = 'breakdown' and name not in ('compute', 'communication'))
        ) as is_refused
    from typical_times('listed_series', 'sides')
),
compared as (
    select
        p.section, p.name, p.place, p.before_count, p.after_count, p.is_refused,
        case when not p.is_refused then p.before_ns end as before_ns,
        case when not p.is_refused then p.after_ns end as after_ns,
        as_bigint(round_even(case when b.by_device is not null and not p.is_refused then p.before_each end, 0)) as before_each_ns,
        as_bigint(round_even(case when a.by_device is not null and not p.is_refused then p.after_each end, 0)) as after_each_ns,
        try(after_each_ns - before_each_ns) as difference_ns
    from timed as p
    cross join chosen as c
    join units as b on b.run = c.before
    join units as a on a.run = c.after
),
shared as (  -- kernels whose names both runs have, or ops, where the runs have no GPU
    select
        sum(before_ns) as before_sum_ns, sum(after_ns) as after_sum_ns,
        sum(before_ns) filter (after_count > 0) as before_ns,
        sum(after_ns) filter (before_count > 0) as after_ns
    from paired
    where section = if(exists (from cpu_runs), 'ops', 'kernels')
),
described as (
    select
        run,
        unnest(range(15)) as place,
        unnest([
            'profiler', 'clock', 'complete', 'gpu', 'devices', 'ranks', 'steps', 'program', 'model', 'batch_size',
            'precision', 'parallelism', 'torch_version', 'cuda_version', 'driver'
        ]) as name,
        unnest([
            t.profiler, t.clock, t.complete,
            case when t.run in (from cpu_runs) then coalesce(c.name, 'none') else c.name end,
            case when t.run in (from cpu_runs) then '0' else u.devices::varchar end,
            u.ranks::varchar,
            u.steps_text,
            r.program, r.model, r.batch_size::varchar, r.precision, r.parallelism, r.torch_version, r.cuda_version,
            r.driver
        ]) as value
    from recorded as t
    join runs as r using (run)
    left join cards as c using (run)
    left join units as u using (run)
),
comparability as (
    select
        b.name, b.place,
        case
            when b.value is null or a.value is null then 'unknown'
            when b.value = a.value then 'same'
            else 'different'
        end as verdict,
        null::bigint as before_ns,
        null::bigint as after_ns,
        b.value as before_said,
        a.value as after_said
    from chosen
    join described as b on b.run = before
    join described as a on a.run = after and a.name = b.name
    where b.place < 7 or b.value is not null or a.value is not null
    union all
    select
        if(exists (from cpu_runs), 'ops of both', 'kernels of both'), 15,
        case
            when before_sum_ns > 0 and after_sum_ns > 0
            then if(least(before_ns / before_sum_ns, after_ns / after_sum_ns) >= 0.9, 'same', 'different')
            else 'unknown'
        end,
        as_bigint(before_ns), as_bigint(after_ns),
        format('{:.1f} % of {}', 100 * before_ns / nullif(before_sum_ns, 0), counted),
        format('{:.1f} % of {}', 100 * after_ns / nullif(after_sum_ns, 0), counted)
    from shared, (select if(exists (from cpu_runs), 'time in ops', 'kernel time') as counted)
),
answers as (
    select
        section, name, place,
        name = 'others' and place is null as is_rest,
        case
            when is_refused then 'refused'
            when coalesce(before_count, before_ns) = 0 and coalesce(after_count, after_ns) > 0 then 'added'
            when coalesce(after_count, after_ns) = 0 and coalesce(before_count, before_ns) > 0 then 'removed'
            when difference_ns is null then 'unknown'
            when abs(difference_ns) <= $same_ratio * before_each_ns then 'similar'
            when difference_ns > 0 then 'more'
            else 'less'
        end as change,
        difference_ns, before_each_ns, after_each_ns, before_count, after_count, before_ns, after_ns,
        null as before_said, null as after_said,
        case when is_refused then 'two profilers recorded the runs, and each slows down the host by its own measure' end as reason
    from compared
    union all
    select
        'comparability', name, place, false, verdict, null, null, null, null, null, before_ns, after_ns,
        before_said, after_said, null
    from comparability
),
sections as (
    select
        unnest(range(8)) as section_place,
        unnest([
            'comparability', 'window', 'breakdown', 'kernels', 'ops', 'memcpys', 'collectives', 'annotations'
        ]) as section
)
select
    section, name, change, difference_ns,
    difference_ns / nullif(before_each_ns, 0) as change_ratio,
    before_each_ns, after_each_ns, before_count, after_count, before_ns, after_ns, before_said, after_said,
    before, after,
    if((select bool_or(is_per_step) from units), 'step', 'recording') as per,
    reason
from answers
join sections using (section)
cross join chosen
where exists (from activity) or exists (from windows)
order by section_place, is_rest, place, abs(difference_ns) desc, name
