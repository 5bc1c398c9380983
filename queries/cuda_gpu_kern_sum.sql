-- The kernels of a run as the report cuda_gpu_kern_sum of `nsys stats` sums them up; kernel_summary has them by device.
-- A row is one run and kernel name, template arguments and parameters included. Durations add up over kernels that run
-- at once. A kernel without start or duration, or with a duration below 0, is left out.
-- Behind `run` and `sum_ns` the columns are those of the report, in its order and with its titles and rounding, to be
-- compared with `nsys stats -r cuda_gpu_kern_sum -f csv`; all devices, processes and ranks of a run are one group, as there.
-- /// query
-- title = "Kernels, as nsys stats sums them up"
-- needs = ["kernels"]
-- subject = "kernels"
-- show = ["run", "Time (%)", "Total Time (ns)", "Instances", "Avg (ns)", "Med (ns)", "Max (ns)", "Name"]
-- chart = { kind = "bars", x = "Name", y = ["Total Time (ns)"], by = "run" }
-- like = { nsys = "kernel_summary" }
-- [params]
-- common = ["run", "rank", "device"]
-- [columns]
-- run = "common"
-- sum_ns = "Durations of all kernels of the run, added up."
-- "Time (%)" = "common"
-- "Total Time (ns)" = "Durations of these kernels, added up."
-- common = ["Instances", "Avg (ns)", "Med (ns)", "Min (ns)", "Max (ns)", "StdDev (ns)"]
-- Name = "Kernel name."
-- ///
with listed as (
    select run, name as part, start_ns, end_ns, dur_ns
    from kernels
    where matches(run, $run) and matches(rank, $rank) and matches(device, $device)
)
select
    run, sum_ns,
    percent as "Time (%)",
    total_ns as "Total Time (ns)",
    instances as "Instances",
    avg_ns as "Avg (ns)",
    med_ns as "Med (ns)",
    min_ns as "Min (ns)",
    max_ns as "Max (ns)",
    deviation_ns as "StdDev (ns)",
    part as "Name"
from durations_by('listed')
order by run, "Total Time (ns)" desc, "Name"
