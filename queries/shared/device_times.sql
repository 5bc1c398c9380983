-- Where the time of each device goes: the rows of layer_parts(), with graph_ns, the time in which whole graphs ran, and kernel_sum_ns
-- and unclassified_ns, the durations of kernels. Of a wanted rank, or of all.
with activity as not materialized (  -- each use reads only its own kinds and columns
    select run, source, rank, device, kind, start_ns, end_ns
    from gpu_activity
    where matches(run, $run) and matches(rank, $rank)
),
executions as not materialized (
    select run, source, rank, pid, device, stream, name, start_ns, end_ns, dur_ns, correlation
    from kernels
    where matches(run, $run) and matches(rank, $rank)
),
kinds as materialized (  -- without the class, of which each row would have a copy
    select
        run, source, rank, device, start_ns, end_ns,
        class = 'communication' as communicates, class = 'unclassified' as is_unclassified
    from with_class('executions')
),
graphs as (
    select run, source, rank, device, start_ns, end_ns from activity where kind = 'graph'
),
outside as materialized (
    from idle_outside('activity')
),
widened as not materialized (
    select run, source, rank, device, start_ns, end_ns from activity
    union all
    from outside
),
others as materialized (  -- of a scope: what runs outside of it
    select run, source, rank, device, layer, start_ns, end_ns from out_of_scope_rows('widened', 'out_of_scope_layers')
),
layers as not materialized (
    select run, source, rank, device, case when communicates then 1 else 0 end as layer, start_ns, end_ns from kinds
    union all
    select run, source, rank, device, case when kind = 'graph' then 0 else 2 end, start_ns, end_ns
    from activity
    where kind <> 'kernel'
    union all
    select run, source, rank, device, 3 + layer, start_ns, end_ns from others
    union all
    select run, source, rank, device, 3, start_ns, end_ns from outside
),
devices_seen as (
    select distinct run, rank, device from activity
),
sums as (
    select
        run, rank, device,
        as_bigint(sum(end_ns - start_ns)) as kernel_sum_ns,
        as_bigint(coalesce(sum(end_ns - start_ns) filter (is_unclassified), 0)) as unclassified_ns
    from kinds
    where has_valid_interval(start_ns, end_ns)
    group by run, rank, device
)
select
    d.run, d.rank, d.device,
    zero_if_missing(p.run, p.window_ns) as window_ns,
    zero_if_missing(p.run, p.compute_ns) as compute_ns,
    zero_if_missing(p.run, p.exposed_comm_ns) as exposed_comm_ns,
    zero_if_missing(p.run, p.exposed_memory_ns) as exposed_memory_ns,
    zero_if_missing(p.run, p.out_of_scope_ns) as out_of_scope_ns,
    zero_if_missing(p.run, p.idle_ns) as idle_ns,
    zero_if_missing(p.run, p.comm_ns) as comm_ns,
    zero_if_missing(p.run, p.comm_ns - p.exposed_comm_ns) as overlapped_comm_ns,
    zero_if_missing(g.run, g.busy_ns) as graph_ns,
    zero_if_missing(s.run, s.kernel_sum_ns) as kernel_sum_ns,
    zero_if_missing(s.run, s.unclassified_ns) as unclassified_ns
from devices_seen as d
left join layer_parts('layers') as p on d.run = p.run and d.rank = p.rank and d.device is not distinct from p.device
left join busy('graphs') as g on d.run = g.run and d.rank = g.rank and d.device is not distinct from g.device
left join sums as s on d.run = s.run and d.rank = s.rank and d.device is not distinct from s.device
