-- What ranks do that communicate on the CPU, of runs without kernels: layer 0 are ops that compute, 1 is communication; in the
-- scope or not.
with without_kernels as (
    select distinct run from communication_kernels where id < 0 and matches(run, $run)
)
select run, source, rank, null::integer as device, 0 as layer, start_ns, end_ns, in_scope
from recorded_ops
where is_computing_op(name) and run in (from without_kernels) and has_valid_interval(start_ns, end_ns)
union all
select run, source, rank, device, 1, start_ns, end_ns, in_scope
from communication_kernels
where id < 0 and matches(run, $run) and has_valid_interval(start_ns, end_ns)
