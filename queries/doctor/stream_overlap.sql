-- Kernels of one stream that overlap, although a stream runs its kernels one after the other.
-- A row is one run and rank; kernels of CUDA graphs are left out, because a graph runs its branches at once on any
-- launching stream. With programmatic dependent launch two kernels overlap a little, by design.
-- /// check
-- title = "Kernels of one stream overlap"
-- severity = "warning"
-- how_to_fix = "A little is rounding, or programmatic dependent launch; much means that one source or rank mixes two processes or captures: record each into its own file."
-- ///
with ordered as (
    select
        run, rank, start_ns, end_ns,
        max(end_ns) over (
            partition by run, source, rank, pid, device, context, stream order by start_ns, end_ns
            rows between unbounded preceding and 1 preceding
        ) as busy_until_ns
    from kernels
    where has_valid_interval(start_ns, end_ns) and dur_ns > 0 and stream is not null and graph is null
)
select
    run,
    rank,
    count(*) filter (start_ns < busy_until_ns) as count,
    format(
        '{} of {} before the previous one of their stream has ended, by {} at most.',
        format('{:,}', count(*) filter (start_ns < busy_until_ns)),
        count_phrase(count(*), 'kernel begins', 'kernels begin'),
        format_duration(max(least(end_ns, busy_until_ns) - start_ns) filter (start_ns < busy_until_ns))
    ) as message
from ordered
group by run, rank
having count(*) filter (start_ns < busy_until_ns) > 0
order by run, rank
