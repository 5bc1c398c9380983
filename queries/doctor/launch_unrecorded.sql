-- Kernels whose launch was not recorded, in a rank whose API calls were.
-- A row is one run and rank. Queries that join kernels to their launch (latency, ops, ranges) leave them out. The check
-- process_unknown reports kernels that name no process.
-- /// check
-- title = "Kernels without their launch"
-- severity = "info"
-- how_to_fix = "Start the recording before the step: it lacks launches made before it began."
-- ///
with launches as (
    select distinct run, source, pid, correlation
    from api_calls
    where correlation is not null
),
followed as (
    select k.run, k.rank, count(*) as kernels, count(l.run) as launched
    from kernels as k
    left join launches as l
        on k.run = l.run and k.source = l.source and k.pid = l.pid and k.correlation = l.correlation
    where k.pid is not null
    group by k.run, k.rank
)
select
    run,
    rank,
    kernels - launched as count,
    format(
        '{} of {} no launch in the recording.',
        format('{:,}', kernels - launched), count_phrase(kernels, 'kernel has', 'kernels have')
    ) as message
from followed
semi join (select distinct run, rank from api_calls) using (run, rank)
where launched < kernels
order by run, rank
