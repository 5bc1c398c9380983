-- Kernels whose grid or block is not recorded.
-- A row is one run and rank. Queries that need a launch's shape (kernel_shapes, counts of operations) leave them out.
-- /// check
-- title = "Kernels without a grid"
-- severity = "info"
-- how_to_fix = "Record with the PyTorch profiler or nsys, and ingest the original file, not one that another tool rewrote."
-- ///
select
    run,
    rank,
    count(*) filter (grid_x is null or block_x is null) as count,
    format(
        '{} of {} no grid or no block.',
        format('{:,}', count(*) filter (grid_x is null or block_x is null)), count_phrase(count(*), 'kernel has', 'kernels have')
    ) as message
from kernels
group by run, rank
having count(*) filter (grid_x is null or block_x is null) > 0
order by run, rank
