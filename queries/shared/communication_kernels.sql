-- The rows of collective_kernels(), of all kernels, in the scope or not; of runs without kernels those of cpu_collectives().
with executions as not materialized (
    select
        run, source, rank, pid, device, stream, name, start_ns, end_ns, dur_ns, correlation, in_scope
    from recorded_kernels
    where matches(run, $run)
),
ranges as not materialized (
    select run, source, rank, pid, name, start_ns, end_ns, dur_ns, args, in_scope
    from recorded_annotations
    where scope = 'cpu' and is_cpu_communication(name) and matches(run, $run)
        and run not in (select run from recorded_kernels where matches(run, $run))
)
from collective_kernels('executions')
union all by name
from cpu_collectives('ranges')
