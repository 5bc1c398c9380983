-- Why a device idles: the CPU side was late, or work that was launched long before had to wait, or it was only the overhead
-- between one piece of work and the next.
-- A row is one run, rank and device with GPU activity. Each gap between two stretches of activity has the cause that the
-- next kernel, copy, memset or graph decides: `host` where the call that launched it ended after the gap had begun, so the
-- device had nothing to do; otherwise `dependency` where the gap is longer than min_gap_ns (it waited for another stream,
-- another device or a copy), else `overhead`. `unknown` are gaps whose next work has no launch call in the source, or
-- starts over a millisecond before it, and all of a process whose synchronizations return over a millisecond before the work
-- ends that they wait for: its clocks of CPU and GPU do not agree. They may have any cause. The four parts add up to
-- `idle_ns`, which is that of gpu_breakdown. With a scope only the gaps that its rows end count. The CPU side is the process that
-- launched; where it waited itself (a lock, the data loader, another rank) is not in it.
-- /// query
-- title = "Idle time causes"
-- needs = ["kernels", "memcpys", "memsets", "graph_launches"]
-- show = ["run", "rank", "device", "window_ns", "host_ns", "dependency_ns", "overhead_ns", "host_op", "unknown_ns"]
-- chart = { kind = "stacked", x = "rank", y = ["host_ns", "dependency_ns", "overhead_ns", "unknown_ns"], by = "run" }
-- [params]
-- common = ["run", "rank", "device", "step_name"]
-- min_gap_ns = { default = 30000, about = "a longer gap before work that was launched in time is a dependency, not overhead" }
-- [columns]
-- common = ["run", "rank", "device", "window_ns", "idle_ns"]
-- idle_ratio = "idle_ns / window_ns."
-- host_ns = "Gaps that ended with work launched too late."
-- dependency_ns = "Longer gaps that ended with work launched in time."
-- overhead_ns = "Gaps of at most min_gap_ns that ended with work launched in time."
-- unknown_ns = "Gaps that ended with work whose launch is not recorded, or begins over a millisecond after the work: the clocks of CPU and GPU do not agree."
-- host_ratio = "host_ns / idle_ns."
-- dependency_ratio = "dependency_ns / idle_ns."
-- overhead_ratio = "overhead_ns / idle_ns."
-- unknown_ratio = "unknown_ns / idle_ns."
-- gaps = "Gaps."
-- host_gaps = "Those of host_ns."
-- dependency_gaps = "Those of dependency_ns."
-- overhead_gaps = "Those of overhead_ns."
-- unknown_gaps = "Those of unknown_ns."
-- longest_gap_ns = "The longest gap."
-- host_step = "The step with most of host_ns: that which launched what ended the gaps; NULL where no range marks steps."
-- dependency_step = "The step with most of dependency_ns."
-- overhead_step = "The step with most of overhead_ns."
-- host_op = "The outermost op whose launches ended over half of host_ns; NULL where none did."
-- host_op_ns = "Its part of host_ns."
-- [report]
-- section = "launches"
-- order = 1
-- row = "GPU[s]"
-- ok_text = "No cause leaves a device idle for more than 10 % of its window."
-- unknown = "Why the devices idle is not known: nothing that ran on one took any time that is known."
-- [[report.findings]]
-- when = "host_ns > 0.1 * nullif(window_ns, 0)"
-- by = "host_ns"
-- cost = { ns = "host_ns", adds = true, topics = ["host", "data"], detail = 1 }
-- what_if = { change = "scale", class = "cpu_side", factor = 0, without = "With a CPU side that takes no time" }
-- text = "{where} waits for the host for {host_ns of window_ns} of its window[, worst in step {host_step}][; over half of that, {host_op_ns}, passes before what {host_op} launches]."
-- every = "{where} wait for the host for {host_ns of window_ns} of their windows[, worst in step {host_step} of rank {rank}][; on rank {rank} over half of that, {host_op_ns}, passes before what {host_op} launches]."
-- step = "host_step"
-- advice = "Launch fewer, larger kernels: fuse or compile, use CUDA graphs, take synchronizations and the data loader out of the way."
-- [[report.findings]]
-- when = "dependency_ns > 0.1 * nullif(window_ns, 0)"
-- by = "dependency_ns"
-- cost = { ns = "dependency_ns", adds = true, topics = ["dependency"], detail = 1 }
-- next = "stream_summary"
-- text = "{where} waits for {dependency_ns of window_ns} of its window with work launched long before[, worst in step {dependency_step}]: other streams, other devices, or a synchronization hold it up."
-- every = "{where} wait for {dependency_ns of window_ns} of their windows with work launched long before[, worst in step {dependency_step} of rank {rank}]: other streams, other devices, or a synchronization hold it up."
-- step = "dependency_step"
-- advice = "See communication and copies."
-- [[report.findings]]
-- when = "overhead_ns > 0.1 * nullif(window_ns, 0)"
-- by = "overhead_ns"
-- cost = { ns = "overhead_ns", adds = true, topics = ["launches"], detail = 1 }
-- what_if = "no_short_gaps"
-- next = "kernel_summary"
-- text = "{where} spends {overhead_ns of window_ns} of its window in short gaps between one kernel and the next[, worst in step {overhead_step}]."
-- every = "{where} spend {overhead_ns of window_ns} of their windows in short gaps between one kernel and the next[, worst in step {overhead_step} of rank {rank}]."
-- step = "overhead_step"
-- advice = "Larger kernels make fewer of these gaps, and CUDA graphs shorten those between kernels that are launched one by one."
-- [[report.findings]]
-- when = "unknown_ns > 0.1 * nullif(window_ns, 0)"
-- by = "unknown_ns"
-- cost = { ns = "unknown_ns", adds = true, topics = ["data", "host", "launches", "dependency"], detail = 1 }
-- text = "{where} idles for {unknown_ns of window_ns} of its window before work whose launch is not known, so that the cause is not known either."
-- every = "{where} idle for {unknown_ns of window_ns} of their windows before work whose launch is not known, so that the cause is not known either."
-- advice = "`doctor` finds which: launches that were not recorded (record the calls of the CUDA runtime and driver beside the kernels: `activities=[CPU, CUDA]` of the PyTorch profiler, `--trace=cuda` of nsys), or kernels that begin before their launch or end after the synchronization with them, because the clocks of CPU and GPU do not agree."
-- ///
with activity as not materialized (  -- each use reads only its own columns
    select run, source, rank, pid, device, stream, start_ns, end_ns, correlation
    from gpu_activity
    where matches(run, $run) and matches(rank, $rank) and matches(device, $device)
),
calls as not materialized (
    select run, source, pid, tid, correlation, name, start_ns, end_ns
    from unscoped_api_calls
    where api in ('runtime', 'driver') and matches(run, $run) and matches(rank, $rank)
),
waits as not materialized (
    from (from syncs union all from left_out_syncs) where matches(run, $run) and matches(rank, $rank)
),
recorded as not materialized (  -- how the clocks of a process compare does not depend on a scope
    from unscoped_activity where matches(run, $run) and matches(rank, $rank) and matches(device, $device)
),
apart as materialized (
    select run, source, pid from clocks_apart('recorded', 'calls', 'waits')
),
devices_seen as (
    select distinct run, rank, device from activity
),
idle as (
    from scope_gaps('activity') where is_own
),
all_steps as materialized (
    from recorded_steps($run, $rank, $step_name)
),
caused as materialized (
    select
        row_number() over () as id, g.run, g.source, g.rank, g.pid, g.device, g.dur_ns,
        g.call_tid as tid, g.call_start_ns as start_ns,
        case when a.run is null then launch_end(g.call_start_ns, g.call_end_ns, g.end_ns) end as launched_ns,
        case
            when launched_ns is null then 'unknown'
            when launched_ns > g.start_ns then 'host'
            when g.dur_ns > $min_gap_ns then 'dependency'
            else 'overhead'
        end as cause
    from with_calls('idle', 'calls') as g
    left join apart as a on g.run = a.run and g.source = a.source and g.pid is not distinct from a.pid
),
in_steps as (
    select c.run, c.rank, c.device, c.cause, s.step, sum(c.dur_ns) as dur_ns
    from begun_step('caused', 'all_steps') as b
    join caused as c using (id)
    join all_steps as s on b.step_id = s.id
    where c.cause <> 'unknown'
    group by c.run, c.rank, c.device, c.cause, s.step
),
worst as (
    select
        run, rank, device,
        first(step order by dur_ns desc, step) filter (cause = 'host') as host_step,
        first(step order by dur_ns desc, step) filter (cause = 'dependency') as dependency_step,
        first(step order by dur_ns desc, step) filter (cause = 'overhead') as overhead_step
    from in_steps
    group by run, rank, device
),
points as not materialized (
    select id, run, source, pid, tid, start_ns as at_ns from caused where cause = 'host'
),
launching_ops as materialized (
    select row_number() over () as id, run, source, rank, pid, tid, name, start_ns, end_ns, null as part
    from unscoped_ops
    where matches(run, $run) and matches(rank, $rank)
),
outer_ids as materialized (
    from outermost('launching_ops')
),
outer_ops as materialized (
    select * from launching_ops where id in (from outer_ids)
),
by_op as (
    select c.run, c.rank, c.device, o.name, sum(c.dur_ns) as dur_ns
    from innermost('outer_ops', 'points') as i
    join caused as c using (id)
    join outer_ops as o on i.parent = o.id
    group by c.run, c.rank, c.device, o.name
),
sums as (
    select
        run, rank, device,
        sum(dur_ns) as idle_ns,
        coalesce(sum(dur_ns) filter (cause = 'host'), 0) as host_ns,
        coalesce(sum(dur_ns) filter (cause = 'dependency'), 0) as dependency_ns,
        coalesce(sum(dur_ns) filter (cause = 'overhead'), 0) as overhead_ns,
        coalesce(sum(dur_ns) filter (cause = 'unknown'), 0) as unknown_ns,
        count(*) as gaps,
        count(*) filter (cause = 'host') as host_gaps,
        count(*) filter (cause = 'dependency') as dependency_gaps,
        count(*) filter (cause = 'overhead') as overhead_gaps,
        count(*) filter (cause = 'unknown') as unknown_gaps,
        max(dur_ns) as longest_gap_ns
    from caused
    group by run, rank, device
)
select
    d.run, d.rank, d.device,
    zero_if_missing(w.run, w.window_ns) as window_ns,
    zero_if_missing(s.run, as_bigint(s.idle_ns)) as idle_ns,
    zero_if_missing(s.run, s.idle_ns) / nullif(w.window_ns, 0) as idle_ratio,
    zero_if_missing(s.run, as_bigint(s.host_ns)) as host_ns,
    zero_if_missing(s.run, as_bigint(s.dependency_ns)) as dependency_ns,
    zero_if_missing(s.run, as_bigint(s.overhead_ns)) as overhead_ns,
    zero_if_missing(s.run, as_bigint(s.unknown_ns)) as unknown_ns,
    s.host_ns / s.idle_ns as host_ratio,
    s.dependency_ns / s.idle_ns as dependency_ratio,
    s.overhead_ns / s.idle_ns as overhead_ratio,
    s.unknown_ns / s.idle_ns as unknown_ratio,
    zero_if_missing(s.run, s.gaps) as gaps,
    zero_if_missing(s.run, s.host_gaps) as host_gaps,
    zero_if_missing(s.run, s.dependency_gaps) as dependency_gaps,
    zero_if_missing(s.run, s.overhead_gaps) as overhead_gaps,
    zero_if_missing(s.run, s.unknown_gaps) as unknown_gaps,
    s.longest_gap_ns,
    l.host_step, l.dependency_step, l.overhead_step,
    o.name as host_op,
    as_bigint(o.dur_ns) as host_op_ns
from devices_seen as d
left join scope_windows('activity') as w on d.run = w.run and d.rank = w.rank and d.device is not distinct from w.device
left join sums as s on d.run = s.run and d.rank = s.rank and d.device is not distinct from s.device
left join worst as l on d.run = l.run and d.rank = l.rank and d.device is not distinct from l.device
left join by_op as o
    on d.run = o.run and d.rank = o.rank and d.device is not distinct from o.device and 2 * o.dur_ns > s.host_ns
order by d.run, d.rank, d.device
