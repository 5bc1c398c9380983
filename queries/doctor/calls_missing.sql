-- GPU activity without the API calls that began it.
-- A row is one run and rank with kernels and no API call at all: nothing tells when they were launched, or by what.
-- /// check
-- title = "No API calls"
-- severity = "info"
-- how_to_fix = "Record the CPU's activity too: ProfilerActivity.CPU beside CUDA, or nsys with --trace=cuda."
-- ///
with kernel_counts as (
    select run, rank, count(*) as kernels from kernels group by run, rank
)
select
    run,
    rank,
    kernels as count,
    format('{} and no API call: nothing tells what launched them.', count_phrase(kernels, 'kernel', 'kernels')) as message
from kernel_counts
anti join (select distinct run, rank from api_calls) using (run, rank)
order by run, rank
