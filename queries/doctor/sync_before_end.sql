-- Synchronizations that return before the work ends that they wait for.
-- A row is one run and rank of which most do, by over a millisecond. The clocks of the CPU and the GPU are apart there by at
-- least that time: no cause of idle time and no launch latency is known, although no kernel begins before its launch.
-- /// check
-- title = "Synchronizations before the end of their work"
-- severity = "warning"
-- how_to_fix = "Compare no time of the CPU with one of the GPU: launch latencies and causes of idle time of this rank are unknown. A newer driver and profiler align the clocks better."
-- ///
with work as (
    select run, source, rank, pid, stream, start_ns, end_ns, correlation from gpu_activity
),
calls as (
    select run, source, pid, correlation, name, start_ns, end_ns from api_calls where api in ('runtime', 'driver')
)
select
    run,
    rank,
    as_bigint(sum(early)) as count,
    format(
        '{} of {} before the work ends that they wait for, by {}: the clocks of CPU and GPU are apart by at least that.',
        format('{:,}', as_bigint(sum(early))),
        count_phrase(as_bigint(sum(of_all)), 'synchronization returns', 'synchronizations return'),
        format_duration(max(over_ns))
    ) as message
from clocks_apart('work', 'calls', 'syncs')
group by run, rank
order by run, rank
