-- Why each device idles, as idle_causes defines it: the rows of its answer. Of a wanted rank, or of all; in a scope, of its rows.
-- /// of one query
-- /// where device = null
-- /// where min_gap_ns = 30000
-- /// where step_name = "(?i)^(profiler)?step\\s*#?\\s*\\d+$"
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
