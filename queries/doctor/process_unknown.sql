-- Kernels that name no process, in a source whose API calls do.
-- A row is one run and rank. A launch and its kernels share (source, pid, correlation), so nothing tells which launch is
-- theirs, and what follows kernels to their launch leaves them out. The reader gives them the source's process where it
-- has only one.
-- /// check
-- title = "No process named"
-- severity = "warning"
-- how_to_fix = "Record each process into a file of its own; a profiler that notes the process of each kernel needs no guess."
-- ///
with called as (
    select distinct run, source from api_calls where pid is not null
)
select
    run,
    rank,
    count(*) as count,
    format(
        '{} no process, so no launch is known to be theirs.', count_phrase(count(*), 'kernel names', 'kernels name')
    ) as message
from kernels
semi join called using (run, source)
where pid is null
group by run, rank
order by run, rank
