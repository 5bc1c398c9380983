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
lanes as materialized (
    from lanes('widened')
),
layers as not materialized (
    select
        run, source, rank, device, start_ns, end_ns,
        case when class = 'communication' then 1 else 0 end::tinyint as layer,
        true as is_kernel, class = 'unclassified' as is_unclassified
    from with_class('executions')
    union all by name
    select run, source, rank, device, start_ns, end_ns, case when kind = 'graph' then 0 else 2 end::tinyint as layer
    from activity
    where kind <> 'kernel'
    union all by name
    select run, source, rank, device, start_ns, end_ns, (3 + layer)::tinyint as layer from others
    union all by name
    select run, source, rank, device, start_ns, end_ns, 3::tinyint as layer from outside
),
rows as materialized (
    select lane, middle_ns, layer, start_ns, end_ns, is_kernel, is_unclassified from with_lane('layers', 'lanes')
),
devices_seen as (
    select distinct run, rank, device from activity
),
sums as (
    select
        run, rank, device,
        as_bigint(sum(dur_ns)) as kernel_sum_ns,
        as_bigint(coalesce(sum(unclassified_ns), 0)) as unclassified_ns
    from (
        select
            lane,
            sum(end_ns - start_ns) as dur_ns,
            sum(end_ns - start_ns) filter (is_unclassified) as unclassified_ns
        from rows
        where is_kernel
        group by lane
    )
    join lanes using (lane)
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
left join lane_parts('lanes', 'rows') as p on d.run = p.run and d.rank = p.rank and d.device is not distinct from p.device
left join busy('graphs') as g on d.run = g.run and d.rank = g.rank and d.device is not distinct from g.device
left join sums as s on d.run = s.run and d.rank = s.rank and d.device is not distinct from s.device
