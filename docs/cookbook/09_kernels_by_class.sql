-- Which classes of kernels take the time?
-- `kernel_classes` classifies every kernel name by the rules of `queries/classes.csv`; your own rules in
-- `<store>/classes.csv` come first.
select class, count(*) as kernels, sum(dur_ns)::bigint as dur_ns, sum(dur_ns) / sum(sum(dur_ns)) over () as of_kernel_sum_ratio
from kernels
join kernel_classes using (name)
where run = 'generated-4rank-ddp'
group by class
order by dur_ns desc
