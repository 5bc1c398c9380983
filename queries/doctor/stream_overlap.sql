-- Kernels of one stream that overlap, although a stream runs its kernels one after the other.
-- A row is one run and rank; kernels of CUDA graphs are left out, because a graph runs its branches at once on any
-- launching stream. With programmatic dependent launch (Hopper and later) a kernel's prologue overlaps the end of the one
-- before it, by design: overlaps of at most 1 % of the kernel time are information, unless one kernel ends before the
-- earlier one does. Busy time counts an overlap once.
-- /// check
-- title = "Kernels of one stream overlap"
-- severity = "warning"
-- how_to_fix = "One source or rank mixes two processes or captures: record each into its own file."
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
),
pairs as (
    select
        run, rank,
        end_ns - start_ns as dur_ns,
        case when start_ns < busy_until_ns then least(end_ns, busy_until_ns) - start_ns end as overlap_ns,
        end_ns < busy_until_ns as is_inside
    from ordered
),
ranks as (
    select
        run, rank,
        count(*) as kernels,
        count(overlap_ns) as begun_early,
        count(*) filter (is_inside) as inside,
        sum(dur_ns) as dur_ns,
        max(overlap_ns) as longest_ns,
        sum(overlap_ns) as overlap_ns
    from pairs
    group by run, rank
    having count(overlap_ns) > 0
),
judged as (
    select *, overlap_ns <= 0.01 * dur_ns and inside = 0 as is_by_design from ranks
)
select
    run,
    rank,
    begun_early as count,
    format(
        '{} of {} before the previous one of their stream has ended, by {} at most and {} in all, {} of the kernel time{}.',
        format('{:,}', begun_early),
        count_phrase(kernels, 'kernel begins', 'kernels begin'),
        format_duration(longest_ns),
        format_duration(overlap_ns),
        percent(overlap_ns, dur_ns),
        case when inside > 0 then format('; {:,} of them wholly within it', inside) else '' end
    ) as message,
    case when is_by_design then 'info' end as severity,
    case
        when is_by_design
        then 'Nothing is to do: so little is rounding, or programmatic dependent launch, and busy time counts an overlap once.'
    end as how_to_fix
from judged
order by run, rank
