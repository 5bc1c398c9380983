-- CUDA graphs that were recorded as a whole, without their kernels.
-- A row is one run and rank. Such a graph counts as compute, also where it communicates or copies; no summary has its
-- kernels.
-- /// check
-- title = "Graphs hide their kernels"
-- severity = "warning"
-- how_to_fix = "Record with `nsys profile --cuda-graph-trace=node`, or with the PyTorch profiler."
-- ///
select
    run,
    rank,
    count(*) as count,
    format(
        '{} as a whole, {} in all; the kernels inside are unknown.',
        count_phrase(count(*), 'CUDA graph was recorded', 'CUDA graphs were recorded'),
        format_duration(coalesce(sum(dur_ns) filter (has_valid_interval(start_ns, end_ns)), 0))
    ) as message
from graph_launches
group by run, rank
order by run, rank
