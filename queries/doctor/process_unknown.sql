-- Kernels that name no process, in a source whose API calls do.
-- A row is one run and rank. A launch and its kernels share (source, pid, correlation), so their launch is unknown,
-- and queries that join kernels to their launch leave them out. The reader assigns them the source's process where the
-- source has only one.
-- /// check
-- title = "No process named"
-- severity = "warning"
-- how_to_fix = "Record each process into its own file, or use a profiler that notes the process of each kernel."
-- ///
with called as (
    select distinct run, source from api_calls where pid is not null
)
select
    run,
    rank,
    count(*) as count,
    format(
        '{} no process, so no launch can be matched.', count_phrase(count(*), 'kernel names', 'kernels name')
    ) as message
from kernels
semi join called using (run, source)
where pid is null
group by run, rank
order by run, rank
