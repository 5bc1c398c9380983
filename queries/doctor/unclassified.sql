-- Kernel time of unclassified names.
-- A row is one run and rank. Such kernels count as compute. Above a tenth of the kernel time it is a warning.
-- /// check
-- title = "Unclassified kernels"
-- severity = "info"
-- how_to_fix = "Assign a class to such names in <store>/classes.csv (columns pattern,class,collective,note)."
-- ///
with executions as not materialized (
    select run, source, rank, pid, device, stream, name, start_ns, end_ns, dur_ns, correlation from kernels
),
names as (
    select run, rank, class, name, sum(dur_ns) as dur_ns
    from with_class('executions')
    where has_valid_interval(start_ns, end_ns)
    group by run, rank, class, name
),
sums as (
    select
        run, rank,
        coalesce(sum(dur_ns) filter (class = 'unclassified'), 0) as unclassified_ns,
        sum(dur_ns) as kernel_sum_ns,
        count(*) filter (class = 'unclassified') as unclassified_names,
        arg_max(name, (dur_ns, name)) filter (class = 'unclassified') as longest
    from names
    group by run, rank
)
select
    run,
    rank,
    unclassified_names as count,
    format(
        '{} of {} of kernel time ({}) is unclassified, in {}; the longest: {}.',
        format_duration(unclassified_ns), format_duration(kernel_sum_ns), percent(unclassified_ns, kernel_sum_ns),
        count_phrase(unclassified_names, 'name', 'names'), left(longest, 80) || case when length(longest) > 80 then '…' else '' end
    ) as message,
    case when unclassified_ns > 0.1 * kernel_sum_ns then 'warning' end as severity
from sums
where unclassified_ns > 0
order by run, rank
