-- Kernels that begin before the call that launched them.
-- A row is one run and rank. A launch and its kernels share (source, pid, correlation). The clocks of the CPU and
-- the GPU disagree there: results that compare the two (launch latency, causes of idle time) are off by as much.
-- /// check
-- title = "Kernels before their launch"
-- severity = "warning"
-- how_to_fix = "Treat launch latencies of this rank as uncertain by that time; a newer driver and profiler align the clocks better."
-- ///
with launches as (
    select run, source, pid, correlation, min(start_ns) as start_ns
    from api_calls
    where correlation is not null and api in ('runtime', 'driver')
    group by run, source, pid, correlation
)
select
    k.run,
    k.rank,
    count(*) filter (k.start_ns < l.start_ns) as count,
    format(
        '{} of {} before the call that launched them, by {} at most.',
        format('{:,}', count(*) filter (k.start_ns < l.start_ns)),
        count_phrase(count(*), 'kernel begins', 'kernels begin'),
        format_duration(max(l.start_ns - k.start_ns))
    ) as message
from kernels as k
join launches as l
    on k.run = l.run and k.source = l.source and k.pid is not distinct from l.pid and k.correlation = l.correlation
where has_valid_interval(k.start_ns, k.start_ns) and has_valid_interval(l.start_ns, l.start_ns)
group by k.run, k.rank
having count(*) filter (k.start_ns < l.start_ns) > 0
order by k.run, k.rank
