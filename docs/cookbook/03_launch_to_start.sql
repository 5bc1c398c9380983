-- How long do kernels wait after their launch?
-- A launch and its kernels share (run, source, pid, correlation), and nothing less: correlation ids restart in every
-- process.
with waits as (
    select kernels.run, kernels.rank, kernels.start_ns - api_calls.end_ns as queue_ns
    from kernels
    join api_calls using (run, source, pid, correlation)
)
select
    run, rank, count(*) as kernels,
    quantile_disc(queue_ns, 0.5) as median_ns, quantile_disc(queue_ns, 0.99) as p99_ns, max(queue_ns) as max_ns
from waits
group by run, rank
order by run, rank
