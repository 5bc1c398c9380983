-- The time of copies and fills as the report cuda_gpu_mem_time_sum of `nsys stats` sums it up.
-- A row is one run and operation: a direction of copies, or the fills. Durations add up over copies that run at once. A
-- copy without start or duration, or with a duration below 0, is left out; memcpy_throughput has every copy, by device.
-- Behind `run` and `sum_ns` the columns are those of the report, in its order and with its titles and rounding, to be
-- compared with `nsys stats -r cuda_gpu_mem_time_sum -f csv`; all devices, processes and ranks of a run stand together, as there.
-- /// query
-- title = "Time of copies and fills, as nsys stats sums it up"
-- needs = ["memcpys", "memsets"]
-- chart = { kind = "bars", x = "Operation", y = ["Total Time (ns)"], by = "run" }
-- like = { nsys = "memcpy_throughput" }
-- [params]
-- run = { type = "text", about = "only this run" }
-- rank = { type = "integer", about = "only this rank" }
-- device = { type = "integer", about = "only this device" }
-- [columns]
-- run = "The run."
-- sum_ns = "Durations of all copies and fills of the run, added up."
-- "Time (%)" = "Total Time (ns) in percent of sum_ns."
-- "Total Time (ns)" = "Durations of these copies and fills, added up."
-- "Count" = "How many they are."
-- "Avg (ns)" = "Total Time (ns) / Count."
-- "Med (ns)" = "The middle duration; the mean of the middle two where their number is even."
-- "Min (ns)" = "The shortest duration."
-- "Max (ns)" = "The longest duration."
-- "StdDev (ns)" = "Standard deviation of the durations as of a sample (n - 1); 0 where there is one."
-- Operation = "What was done, in the words of nsys: [CUDA memcpy Host-to-Device], [CUDA memset] …"
-- ///
with listed as (
    select run, operation as part, start_ns, end_ns, dur_ns
    from memory_operations
    where matches(run, $run) and matches(rank, $rank) and matches(device, $device)
)
select
    run, sum_ns,
    percent as "Time (%)",
    total_ns as "Total Time (ns)",
    instances as "Count",
    avg_ns as "Avg (ns)",
    med_ns as "Med (ns)",
    min_ns as "Min (ns)",
    max_ns as "Max (ns)",
    deviation_ns as "StdDev (ns)",
    part as "Operation"
from durations_by('listed')
order by run, "Total Time (ns)" desc, "Operation"
