-- Where the time of each rank goes from the first to the last row of each of its devices, by span_times(), with the number
-- of kernels from there on. A sum of times is a number of 38 digits, which Parquet can keep.
with executions as not materialized (
    select run, source, rank, pid, device, stream, name, start_ns, end_ns, dur_ns, correlation, kind as part
    from gpu_activity
    where matches(run, $run)
),
lanes as materialized (
    from layer_lanes('executions', 'cpu_layers')
),
spans as materialized (
    select lane, run, rank, null::bigint as step, first_ns as start_ns, last_ns as end_ns from lanes
),
work as (
    from lane_work('executions', 'cpu_layers', 'lanes')
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
from span_times('spans', 'work') as s
left join counted as c using (run, rank)
