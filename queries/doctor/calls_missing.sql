-- GPU activity without the API calls that launched it.
-- A row is one run and rank with kernels and no API call: their launch times and launching calls are unknown.
-- /// check
-- title = "No API calls"
-- severity = "info"
-- how_to_fix = "Record CPU activity too: ProfilerActivity.CPU beside CUDA, or nsys with --trace=cuda."
-- ///
with kernel_counts as (
    select run, rank, count(*) as kernels from kernels group by run, rank
)
select
    run,
    rank,
    kernels as count,
    format('{} and no API call: launches are unknown.', count_phrase(kernels, 'kernel', 'kernels')) as message
from kernel_counts
anti join (select distinct run, rank from api_calls) using (run, rank)
order by run, rank
