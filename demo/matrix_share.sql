-- The share of the training steps that matrix multiplication and convolution take.
with steps as (
    select run, count(*) as steps, sum(dur_ns)::bigint as step_ns
    from annotations
    where name like 'ProfilerStep#%' and scope = 'cpu'
    group by run
),
matrix as (
    select run, count(*) as calls, sum(dur_ns)::bigint as matrix_ns
    from ops
    where name in (
        'aten::mm', 'aten::addmm', 'aten::bmm', 'aten::baddbmm',
        'aten::mkldnn_convolution', 'aten::convolution_backward'
    )
    group by run
)
select run, steps, step_ns, calls, matrix_ns, matrix_ns / step_ns as of_step_ratio
from steps
join matrix using (run)
where run not like 'generated-%'
order by of_step_ratio desc
