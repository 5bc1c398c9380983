-- Which three kernels take the most time on every rank?
-- `qualify` filters rows by a window function, without a subquery. The denominator of the share is the sum of the rank's
-- kernels, so overlap counts twice.
select
    rank, left(kernel_key(name), 40) as kernel, count(*) as calls, sum(dur_ns)::bigint as dur_ns,
    sum(dur_ns) / sum(sum(dur_ns)) over (partition by run, rank) as of_kernel_sum_ratio
from kernels
where run = 'generated-4rank-ddp'
group by run, rank, kernel
qualify row_number() over (partition by run, rank order by sum(dur_ns) desc) <= 3
order by rank, dur_ns desc
