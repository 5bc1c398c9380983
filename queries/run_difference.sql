-- Two runs side by side: what takes more time or less in the second than in the first, and how comparable they are.
-- A row is one thing of a section, as both runs have it. Section `comparability` lists what the runs have in common;
-- `window` and `breakdown` are those of gpu_breakdown; `kernels`, `memcpys` (memsets among them), `collectives` and
-- `annotations` (ranges of threads, numbers in their texts as #) add up durations. Of a long section those with the
-- largest difference_ns have rows of their own, the rest is `others`.
-- Where neither run used a GPU, the CPU is compared: `ops` add up each op's own time, without the ops inside it, and
-- `collectives` communication by gloo, MPI or UCC. Window and breakdown are then of ranks: waiting for data, else compute (an
-- op runs, neither of c10d nor of the autograd engine), else communication, else idle; with steps they reach from the first
-- step to the end of the last.
-- Runs differ in how much they recorded. So difference_ns is per device, and per step where both runs have steps: ranges
-- that step_name finds, of them those that launched a kernel which was recorded; of the first and the last, where they
-- have fewer kernels, only the part that was recorded, by the time of their kernels (3.50 of 4: ±12.5 %, as what was
-- recorded of it may hold more or less of other things). Window and breakdown then begin with the first kernel that a
-- step launched and end with the last one: idle time and work around the steps are no part of them.
-- Where a recording has no such ranges, step_kernel counts what the GPU did.
-- Without steps it is a difference of whole recordings, and means little unless these did the same work. Names of kernels
-- are compared as the profilers spell them, or, where two profilers recorded the runs, by kernel_key: the function's own
-- name. Two runs of the same program differ, too.
-- /// query
-- title = "Run comparison"
-- needs = ["kernels", "memcpys", "memsets", "graph_launches", "ops", "annotations"]
-- show = ["section", "name", "verdict", "difference_ns", "change_ratio", "before_each_ns", "after_each_ns"]
-- chart = { kind = "bars", x = "name", y = ["difference_ns"], by = "section", signed = true }
-- [params]
-- before = { type = "run", example = "generated-4rank-ddp", about = "the run to compare with; without it the first of a store's two" }
-- after = { type = "run", example = "generated-4rank-nobroadcast", about = "the run that is compared; without it the other one" }
-- common = ["step_name", "loader_name"]
-- step_kernel = { type = "text", about = "count the steps of the GPU by kernels with names in which this regular expression finds something, so many to a step" }
-- same_ratio = { default = 0.05, about = "a change_ratio up to this, up or down, is the same" }
-- short_names = { default = false, about = "compare kernels by their own names alone, whatever recorded them" }
-- top_rows = { default = 10, about = "that many rows of a section are not merged into `others`, those with the largest difference_ns" }
-- rank = "common"
-- device = "common"
-- [columns]
-- section = "comparability, window, breakdown, kernels, ops, memcpys, collectives or annotations."
-- name = "What is compared; `others` adds up what is not listed."
-- verdict = "added, removed, slower (takes more time), faster (less) or same; of comparability same, different or unknown."
-- difference_ns = "after_each_ns - before_each_ns."
-- change_ratio = "difference_ns / before_each_ns."
-- before_each_ns = "before_ns per device (annotations, and runs without a GPU: per rank) and, where both runs have steps, per step."
-- after_each_ns = "after_ns per device (annotations, and runs without a GPU: per rank) and, where both runs have steps, per step."
-- before_count = "How often it occurs in the first run; of the window the devices, or the ranks of runs without a GPU."
-- after_count = "How often it occurs in the second run."
-- before_ns = "Its time in the first run, added up over ranks and devices."
-- after_ns = "Its time in the second run, added up over ranks and devices."
-- before_said = "Value in the first run, of comparability."
-- after_said = "Value in the second run, of comparability."
-- before = "The first run."
-- after = "The second run."
-- [report]
-- section = "comparison"
-- order = 1
-- unknown = "How the work of the two runs differs is not known: no kernel of theirs was compared, and no op."
-- [[report.findings]]
-- when = "case when section = 'kernels' then difference_ns <> 0 end"
-- by = "abs(difference_ns)"
-- text = "The largest difference between the kernels of the two runs is {name}: {difference_ns}[, from {before_each_ns}][ to {after_each_ns}]."
-- advice = "See first whether the runs are comparable (section `comparability`); then look at that kernel's calls and shapes in both."
-- [[report.findings]]
-- when = "case when section = 'ops' then difference_ns <> 0 end"
-- by = "abs(difference_ns)"
-- text = "The largest difference between the ops of the two runs is {name}: {difference_ns}[, from {before_each_ns}][ to {after_each_ns}], without the ops inside it."
-- advice = "See first whether the runs are comparable (section `comparability`); then compare that op's calls in op_summary of both."
-- ///
with chosen as materialized (
    select
        coalesce($before, (select min(run) from sources where run is distinct from $after)) as before,
        coalesce($after, (select max(run) from sources where run is distinct from $before)) as after
),
selected as materialized (
    select unnest(list_distinct([before, after])) as run from chosen
),
activity as not materialized (  -- each use reads only its own kinds and columns
    select run, source, rank, device, kind, start_ns, end_ns, dur_ns, name
    from gpu_activity
    where run in (from selected) and matches(rank, $rank) and matches(device, $device)
),
executions as not materialized (
    select run, source, rank, pid, device, stream, name, start_ns, end_ns, dur_ns, correlation
    from kernels
    where run in (from selected) and matches(rank, $rank) and matches(device, $device)
),
ranges as not materialized (
    select run, source, rank, pid, name, start_ns, end_ns, dur_ns
    from annotations
    where scope = 'cpu' and run in (from selected) and matches(rank, $rank)
),
kinds as (
    select run, source, rank, device, name, start_ns, end_ns, dur_ns, class, collective from with_class('executions')
),
recorded as (
    select
        run,
        string_agg(distinct format, ', ' order by format) as profiler,
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
step_ranges as (
    select run, source, rank, coalesce(pid, -1) as process, start_ns, end_ns
    from ranges
    where regexp_matches(name, $step_name) and has_valid_interval(start_ns, end_ns)
),
cpu_runs as materialized (  -- both runs, where neither used a GPU; else none
    select run from selected where $device is null and not exists (from activity)
),
cpu_ops as materialized (
    select run, source, rank, pid, tid, name, start_ns, end_ns
    from ops
    where run in (from cpu_runs) and matches(rank, $rank)
),
op_kinds as materialized (  -- a million calls have some hundred
    select row_number() over () as kind, run, source, rank, pid, tid, name
    from (select distinct run, source, rank, pid, tid, name from cpu_ops)
),
op_calls as materialized (  -- the last 31 bits of a call's id are its kind
    select (o.place << 31) + k.kind as id, o.run, o.source, o.rank, o.pid, o.tid, o.name, o.start_ns, o.end_ns
    from (select *, row_number() over () as place from cpu_ops) as o
    join hint_small('op_kinds') as k
        on o.run = k.run and o.source = k.source and o.rank = k.rank and o.pid is not distinct from k.pid
        and o.tid is not distinct from k.tid and o.name is not distinct from k.name
),
op_nest as materialized (
    select id, end_ns - start_ns as dur_ns, parent from nesting('op_calls')
),
op_sums as materialized (  -- an op's own time is its duration less those of the ops directly inside
    select k.run, k.name, sum(s.calls) as listed, sum(s.self_ns) as dur_ns
    from (
        select id & 2147483647 as kind, count(*) as calls, null as self_ns from op_calls group by kind
        union all
        select id & 2147483647 as kind, 0, sum(dur_ns) from op_nest group by kind
        union all
        select parent & 2147483647 as kind, 0, -sum(dur_ns) from op_nest where parent is not null group by kind
    ) as s
    join op_kinds as k using (kind)
    group by k.run, k.name
),
cpu_spans as not materialized (
    select run, source, rank, name, false as is_op, start_ns, end_ns from ranges where run in (from cpu_runs)
    union all
    select run, source, rank, name, true, start_ns, end_ns from op_calls
),
cpu_names as (  -- the expressions look at each distinct name once
    select
        name, is_op,
        case
            when is_cpu_communication(name) then 'communication'
            when regexp_matches(name, $loader_name) then 'data_wait'
            when is_op and is_computing_op(name) then 'compute'
        end as part
    from (
        select distinct name, true as is_op from op_kinds
        union all
        select distinct name, false from ranges where run in (from cpu_runs)
    )
),
cpu_activity as materialized (
    select s.run, s.source, s.rank, s.name, n.part, s.start_ns, s.end_ns
    from cpu_spans as s
    join hint_small('cpu_names') as n on s.name is not distinct from n.name and s.is_op = n.is_op
),
cpu_windows as (  -- of a rank in a source: from its first step to the end of the last, where both runs have steps; else all
    select run, source, rank, min(start_ns) as start_ns, max(end_ns) as end_ns
    from (
        select run, source, rank, start_ns, end_ns, true as is_step from step_ranges where run in (from cpu_runs)
        union all
        select run, source, rank, start_ns, end_ns, false from cpu_activity where has_valid_interval(start_ns, end_ns)
    )
    where is_step = ((select count(distinct run) from step_ranges) = (select count(*) from selected))
    group by run, source, rank
),
cpu_clipped as materialized (
    select
        a.run, a.source, a.rank, null::integer as device, a.part,
        greatest(a.start_ns, w.start_ns) as start_ns,
        least(a.end_ns, w.end_ns) as end_ns
    from cpu_activity as a
    join cpu_windows as w on a.run = w.run and a.source = w.source and a.rank = w.rank
    where a.part is not null and has_valid_interval(a.start_ns, a.end_ns) and a.start_ns < w.end_ns and a.end_ns > w.start_ns
),
loading as (
    from cpu_clipped where part = 'data_wait'
),
computing as (
    from cpu_clipped where part = 'compute'
),
communicating as (
    from cpu_clipped where part = 'communication'
),
cpu_breakdown as (
    select
        run,
        sum(a_ns + ab_ns + ac_ns + abc_ns) as data_wait_ns,
        sum(b_ns + bc_ns) as compute_ns,
        sum(c_ns) as exposed_comm_ns,
        sum(c_ns + ac_ns + bc_ns + abc_ns) as comm_ns
    from regions('loading', 'computing', 'communicating')
    group by run
),
cpu_times as (
    select
        w.run, w.window_ns,
        coalesce(b.compute_ns, 0) as compute_ns,
        coalesce(b.exposed_comm_ns, 0) as exposed_comm_ns,
        coalesce(b.data_wait_ns, 0) as data_wait_ns,
        coalesce(b.comm_ns, 0) as comm_ns
    from (select run, sum(end_ns - start_ns) as window_ns from cpu_windows group by run) as w
    left join cpu_breakdown as b using (run)
),
lanes_seen as (
    select run, count(distinct rank) as ranks, count(*) as devices
    from (
        select distinct run, rank, device from activity
        union all
        select distinct run, rank, null from cpu_activity
    )
    group by run
),
launches as (  -- those whose kernels were recorded
    select
        a.run, a.source, coalesce(a.pid, -1) as process, a.start_ns,
        k.start_ns as begun_ns, k.end_ns as ended_ns, greatest(k.end_ns - k.start_ns, 0) as dur_ns
    from (select run, source, pid, correlation, start_ns from api_calls where run in (from selected)) as a
    join executions as k
        on a.run = k.run and a.source = k.source and coalesce(a.pid, -1) = coalesce(k.pid, -1)
        and a.correlation = k.correlation
),
filled as (  -- steps of which kernels were recorded, how many, and their time
    select
        s.run, s.source, s.rank, s.process, s.start_ns, count(*) as kernels, sum(l.dur_ns) as kernel_ns,
        min(l.begun_ns) as begun_ns, max(l.ended_ns) as ended_ns
    from launches as l
    asof join step_ranges as s
        on l.run = s.run and l.source = s.source and l.process = s.process and l.start_ns >= s.start_ns
    where l.start_ns < s.end_ns
    group by s.run, s.source, s.rank, s.process, s.start_ns
),
stretches as (  -- from the first kernel of the steps to the end of the last, where both runs have such steps
    select run, source, rank, min(begun_ns) as start_ns, max(ended_ns) as end_ns
    from filled
    where $step_kernel is null and (select count(distinct run) from filled) = (select count(*) from selected)
    group by run, source, rank
),
placed as not materialized (
    select w.*
    from (
        select
            run, source, rank, device, start_ns, end_ns,
            if(class = 'communication', 'communication', 'compute') as part
        from kinds
        union all
        select run, source, rank, device, start_ns, end_ns, if(kind = 'graph', 'compute', 'memory')
        from activity
        where kind in ('graph', 'memcpy', 'memset')
    ) as w
    left join stretches as s on w.run = s.run and w.source = s.source and w.rank = s.rank
    where s.run is null or (w.start_ns >= s.start_ns and w.start_ns < s.end_ns)
),
compute as (
    select run, source, rank, device, start_ns, end_ns from placed where part = 'compute'
),
communication as (
    select run, source, rank, device, start_ns, end_ns from placed where part = 'communication'
),
memory as (
    select run, source, rank, device, start_ns, end_ns from placed where part = 'memory'
),
cut as (  -- what was recorded of the first and the last step of a process: its time, by that of a step in between
    select
        run,
        case when not is_inner and kernels < usual then least(1, kernel_ns / nullif(usual_ns, 0)) else 1 end as part
    from (
        select
            run, kernels, kernel_ns, is_inner,
            median(kernels) filter (is_inner) over (partition by run, source, process) as usual,
            median(kernel_ns) filter (is_inner) over (partition by run, source, process) as usual_ns
        from (
            select
                *,
                lag(start_ns) over alike is not null and lead(start_ns) over alike is not null as is_inner
            from filled
            window alike as (partition by run, source, process order by start_ns)
        )
    )
),
steps_of_ranges as (
    select s.run, s.steps, c.steps_on_gpu / s.ranks as steps_on_gpu, c.begun / s.ranks as steps_begun
    from (
        select run, count(*) / count(distinct rank) as steps, count(distinct rank) as ranks from step_ranges group by run
    ) as s
    left join (select run, sum(part) as steps_on_gpu, count(*) as begun from cut group by run) as c using (run)
),
steps_of_kernels as (
    select run, count(*) / count(distinct rank) as steps
    from executions
    where regexp_matches(name, $step_kernel) and has_valid_interval(start_ns, end_ns)
    group by run
),
units as materialized (  -- a row is a run, and by what its times are divided
    select
        l.run, l.ranks, l.devices,
        count(*) over () as runs,
        case
            when count(k.steps) over () = runs then k.steps
            when $step_kernel is null and count(r.steps) over () = runs then coalesce(r.steps_on_gpu, r.steps)
        end as steps_seen,
        case when steps_seen = r.steps_on_gpu and r.steps_on_gpu < r.steps_begun then r.steps_begun end as cut_of,
        coalesce(steps_seen, 1) as device_steps,
        case when count(r.steps) over () = runs then r.steps else 1 end as rank_steps
    from lanes_seen as l
    left join steps_of_ranges as r using (run)
    left join steps_of_kernels as k using (run)
),
spelled as (
    select
        name,
        case
            when $short_names or (select count(distinct profiler) > 1 from recorded) then kernel_key(name)
            else name
        end as kernel
    from classify('executions')
),
kernel_sums as (
    select run, name, class, collective, count(*) as listed, sum(dur_ns) filter (has_valid_interval(start_ns, end_ns)) as dur_ns
    from kinds
    group by run, name, class, collective
),
parts as (
    select
        run,
        sum(window_ns) as window_ns,
        sum(a_ns + ab_ns + ac_ns + abc_ns) as compute_ns,
        sum(b_ns + bc_ns) as exposed_comm_ns,
        sum(c_ns) as exposed_memory_ns,
        sum(idle_ns) as idle_ns,
        sum(b_ns + ab_ns + bc_ns + abc_ns) as comm_ns,
        sum(ab_ns + abc_ns) as overlapped_comm_ns
    from regions('compute', 'communication', 'memory')
    group by run
),
sums as (
    select run, 'window' as section, 'window' as name, 1 as place, devices as listed, window_ns as dur_ns
    from units
    left join parts using (run)
    where run not in (from cpu_runs)
    union all
    select
        run, 'breakdown',
        unnest(['compute', 'exposed_comm', 'exposed_memory', 'idle', 'comm', 'overlapped_comm']),
        unnest(range(6)),
        null,
        unnest([compute_ns, exposed_comm_ns, exposed_memory_ns, idle_ns, comm_ns, overlapped_comm_ns])
    from units
    left join parts using (run)
    where run not in (from cpu_runs)
    union all
    select t.run, 'window', 'window', 1, u.ranks, t.window_ns
    from cpu_times as t
    join units as u using (run)
    union all
    select
        run, 'breakdown',
        unnest(['compute', 'exposed_comm', 'data_wait', 'idle', 'comm', 'overlapped_comm']),
        unnest(range(6)),
        null,
        unnest([
            compute_ns, exposed_comm_ns, data_wait_ns, window_ns - compute_ns - exposed_comm_ns - data_wait_ns,
            comm_ns, comm_ns - exposed_comm_ns
        ])
    from cpu_times
    union all
    select run, 'ops', name, null, listed, dur_ns from op_sums
    union all
    select
        run, 'collectives', cpu_collective(name) as collective, null,
        count(*), sum(end_ns - start_ns) filter (has_valid_interval(start_ns, end_ns))
    from cpu_activity
    where part = 'communication'
    group by run, collective
    union all
    select run, 'kernels', kernel, null, sum(listed), sum(dur_ns)
    from kernel_sums as k
    join spelled as s on k.name is not distinct from s.name
    group by run, kernel
    union all
    select
        run, 'memcpys', case kind when 'memcpy' then coalesce(name, 'unknown') else 'memset' end as operation, null,
        count(*), sum(dur_ns) filter (has_valid_interval(start_ns, end_ns))
    from activity
    where kind in ('memcpy', 'memset')
    group by run, operation
    union all
    select run, 'collectives', collective, null, sum(listed), sum(dur_ns)
    from kernel_sums
    where class = 'communication'
    group by run, collective
    union all
    select
        run, 'annotations', regexp_replace(name, '#?\d+', '#', 'g') as text, null,
        count(*), sum(dur_ns) filter (has_valid_interval(start_ns, end_ns))
    from ranges
    group by run, text
),
paired as (
    select
        coalesce(b.section, a.section) as section,
        coalesce(b.name, a.name) as name,
        coalesce(b.place, a.place) as place,
        case when b.section is null then 0 else b.listed end as before_count,
        case when a.section is null then 0 else a.listed end as after_count,
        coalesce(b.dur_ns, 0) as before_ns,
        coalesce(a.dur_ns, 0) as after_ns
    from (from sums where run = (select before from chosen)) as b
    full join (from sums where run = (select after from chosen)) as a
        on b.section = a.section and b.name is not distinct from a.name
),
divisors as materialized (
    select
        b.ranks * b.rank_steps as before_ranks, b.devices * b.device_steps as before_devices,
        a.ranks * a.rank_steps as after_ranks, a.devices * a.device_steps as after_devices
    from chosen
    left join units as b on b.run = before
    left join units as a on a.run = after
),
ranked as (
    select
        section, name, place, before_count, after_count, before_ns, after_ns,
        case section when 'annotations' then before_ranks else before_devices end as before_by,
        case section when 'annotations' then after_ranks else after_devices end as after_by,
        place is null and $top_rows < row_number() over (
            partition by section
            order by abs(coalesce(after_ns / after_by, 0) - coalesce(before_ns / before_by, 0)) desc, name
        ) as is_rest
    from paired, divisors
),
listed as (
    select
        section, is_rest,
        case when is_rest then 'others' else name end as name,
        any_value(place) as place,
        as_bigint(sum(before_count)) as before_count,
        as_bigint(sum(after_count)) as after_count,
        as_bigint(sum(before_ns)) as before_ns,
        as_bigint(sum(after_ns)) as after_ns,
        as_bigint(round(sum(before_ns) / any_value(before_by))) as before_each_ns,
        as_bigint(round(sum(after_ns) / any_value(after_by))) as after_each_ns
    from ranked
    group by section, is_rest, case when is_rest then 'others' else name end
),
compared as (
    select *, try(after_each_ns - before_each_ns) as difference_ns
    from listed
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
            case
                when cut_of is null then format('{:g}', u.steps_seen)
                else format('{:.2f} of {:g}: ±{:.1f} %', u.steps_seen, u.cut_of, 100 - 100 * u.steps_seen / u.cut_of)
            end,
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
        section, name, place, is_rest,
        case
            when coalesce(before_count, before_ns) = 0 and coalesce(after_count, after_ns) > 0 then 'added'
            when coalesce(after_count, after_ns) = 0 and coalesce(before_count, before_ns) > 0 then 'removed'
            when difference_ns is null then 'unknown'
            when abs(difference_ns) <= $same_ratio * before_each_ns then 'same'
            when difference_ns > 0 then 'slower'
            else 'faster'
        end as verdict,
        difference_ns, before_each_ns, after_each_ns, before_count, after_count, before_ns, after_ns,
        null as before_said, null as after_said
    from compared
    union all
    select
        'comparability', name, place, false, verdict, null, null, null, null, null, before_ns, after_ns,
        before_said, after_said
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
    section, name, verdict, difference_ns,
    difference_ns / nullif(before_each_ns, 0) as change_ratio,
    before_each_ns, after_each_ns, before_count, after_count, before_ns, after_ns, before_said, after_said,
    before, after
from answers
join sections using (section), chosen
where exists (from activity) or exists (from cpu_times)
order by section_place, is_rest, place, abs(difference_ns) desc, name
