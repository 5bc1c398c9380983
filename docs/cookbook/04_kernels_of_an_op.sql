-- Which kernels does an op launch?
-- `external_id` is the id of the op that was running at the launch.
select ops.name as op, class, count(*) as kernels, sum(kernels.dur_ns)::bigint as dur_ns
from kernels
join ops using (run, source, external_id)
join kernel_classes on kernel_classes.name = kernels.name
where run = 'generated-4rank-ddp'
group by op, class
order by dur_ns desc
limit 6
