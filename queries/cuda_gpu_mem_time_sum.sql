-- The time of copies and memsets as the report cuda_gpu_mem_time_sum of `nsys stats` sums it up.
-- A row is one run and operation: a direction of copies, or the memsets. Durations add up over copies that run at once. A
-- copy without start or duration, or with a duration below 0, is left out; memcpy_throughput has every copy, by device.
-- Behind `run` and `sum_ns` the columns are those of the report, in its order and with its titles and rounding, to be
-- compared with `nsys stats -r cuda_gpu_mem_time_sum -f csv`; all devices, processes and ranks of a run are one group, as
-- there.
-- /// query
-- title = "Time of copies and memsets, as nsys stats sums it up"
-- needs = ["memcpys", "memsets"]
-- subject = "copies"
-- show = ["run", "Time (%)", "Total Time (ns)", "Count", "Avg (ns)", "Med (ns)", "Max (ns)", "Operation"]
-- chart = { kind = "bars", x = "Operation", y = ["Total Time (ns)"], by = "run" }
-- like = { nsys = "memcpy_throughput" }
-- [params]
-- common = ["run", "rank", "device"]
-- [columns]
-- run = "common"
-- sum_ns = "Durations of all copies and memsets of the run, added up."
-- "Time (%)" = "common"
-- "Total Time (ns)" = "Durations of these copies and memsets, added up."
-- "Count" = "common"
-- "Avg (ns)" = "Total Time (ns) / Count."
-- common = ["Med (ns)", "Min (ns)", "Max (ns)", "StdDev (ns)", "Operation"]
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
