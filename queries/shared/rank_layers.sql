-- Where the time of each rank goes from the first to the last row of each of its devices, by lane_sums(), with the number
-- of kernels from there on. A sum of times is a number of 38 digits, which Parquet can keep.
with executions as not materialized (
    select run, source, rank, pid, device, stream, name, start_ns, end_ns, dur_ns, correlation, kind as part
    from gpu_activity
    where matches(run, $run)
),
lanes as materialized (
    from layer_lanes('executions', 'cpu_layers')
),
work as materialized (  -- rows outside of a scope may reach out of the window
    select
        w.lane, w.layer, l.middle_ns,
        greatest(w.start_ns, l.first_ns) as start_ns,
        least(w.end_ns, l.last_ns) as end_ns
    from lane_work('executions', 'cpu_layers', 'lanes') as w
    join (select lane, first_ns, last_ns, first_ns + (last_ns - first_ns) // 2 as middle_ns from lanes) as l using (lane)
    where w.end_ns > l.first_ns and w.start_ns < l.last_ns
),
sums as (
    select
        run, rank,
        sum(window_ns) as window_ns,
        sum(compute_ns) as compute_ns,
        sum(exposed_comm_ns) as communication_ns,
        sum(exposed_memory_ns) as copies_ns,
        sum(out_of_scope_ns) as out_of_scope_ns
    from lane_sums('lanes', 'work')
    group by run, rank
),
counted as (
    select k.run, k.rank, count(*) as kernels
    from kernels as k
    join hint_small('lanes') as l
        on k.run = l.run and k.source = l.source and k.rank = l.rank and k.device is not distinct from l.device
    where matches(k.run, $run) and k.start_ns >= l.first_ns
    group by k.run, k.rank
)
select
    s.run, s.rank,
    s.window_ns::decimal(38, 0) as window_ns,
    s.compute_ns::decimal(38, 0) as compute_ns,
    s.communication_ns::decimal(38, 0) as communication_ns,
    s.copies_ns::decimal(38, 0) as copies_ns,
    s.out_of_scope_ns::decimal(38, 0) as out_of_scope_ns,
    c.kernels
from sums as s
left join counted as c using (run, rank)
