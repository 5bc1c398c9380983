-- Communication kernels without a recorded number of bytes.
-- A row is one run and rank with communication kernels and no collective of known size: each bandwidth of
-- collective_summary is NULL.
-- /// check
-- title = "Collectives without sizes"
-- severity = "info"
-- how_to_fix = "Record a distributed job with the PyTorch profiler (2.1 or newer), ProfilerActivity.CPU beside CUDA: it records the sizes."
-- ///
with executions as not materialized (
    select run, source, rank, pid, device, stream, name, start_ns, end_ns, dur_ns, correlation from kernels
),
communication as (
    select run, rank, count(*) as kernels
    from with_class('executions')
    where class = 'communication'
    group by run, rank
)
select
    run,
    rank,
    kernels as count,
    format('{} and no collective with a recorded size.', count_phrase(kernels, 'communication kernel', 'communication kernels')) as message
from communication
anti join (select distinct run, rank from collectives where size_bytes is not null) using (run, rank)
order by run, rank
