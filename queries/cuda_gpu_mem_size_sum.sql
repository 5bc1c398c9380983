-- The bytes of copies and memsets as the report cuda_gpu_mem_size_sum of `nsys stats` sums them up.
-- A row is one run and operation: a direction of copies, or the memsets. One whose size is not known is left out.
-- Behind `run` and `size_bytes` the columns are those of the report, in its order and with its titles and rounding, to be
-- compared with `nsys stats -r cuda_gpu_mem_size_sum -f csv`; all devices, processes and ranks of a run are one group, as
-- there. 1 MB is 1e6 bytes.
-- /// query
-- title = "Bytes of copies and memsets, as nsys stats sums them up"
-- needs = ["memcpys", "memsets"]
-- subject = "copies"
-- show = ["run", "Total (MB)", "Count", "Avg (MB)", "Med (MB)", "Min (MB)", "Max (MB)", "Operation"]
-- chart = { kind = "bars", x = "Operation", y = ["size_bytes"], by = "run" }
-- like = { nsys = "memcpy_sizes" }
-- [params]
-- common = ["run", "rank", "device"]
-- [columns]
-- common = ["run"]
-- size_bytes = "Bytes of these operations, exactly."
-- "Total (MB)" = "Bytes of these operations, in 1e6."
-- "Count" = "common"
-- "Avg (MB)" = "Total (MB) / Count."
-- "Med (MB)" = "The middle size; the mean of the middle two where their number is even."
-- "Min (MB)" = "The smallest size."
-- "Max (MB)" = "The largest size."
-- "StdDev (MB)" = "Standard deviation of the sizes as of a sample (n - 1); 0 where there is one."
-- Operation = "common"
-- ///
with sized as (
    select run, operation, size_bytes
    from memory_operations
    where size_bytes is not null
        and matches(run, $run) and matches(rank, $rank) and matches(device, $device)
),
operations as (
    select
        run, operation,
        sum(size_bytes) as total_bytes,
        count(*) as listed,
        in_mb(avg(size_bytes)) as avg_mb,
        in_mb(median(size_bytes)) as med_mb,
        in_mb(min(size_bytes)) as min_mb,
        in_mb(max(size_bytes)) as max_mb,
        in_mb(deviation(size_bytes)) as deviation_mb
    from sized
    group by run, operation
)
select
    run,
    as_bigint(total_bytes) as size_bytes,
    in_mb(total_bytes) as "Total (MB)",
    listed as "Count",
    avg_mb as "Avg (MB)",
    med_mb as "Med (MB)",
    min_mb as "Min (MB)",
    max_mb as "Max (MB)",
    deviation_mb as "StdDev (MB)",
    operation as "Operation"
from operations
order by run, total_bytes desc, "Operation"
