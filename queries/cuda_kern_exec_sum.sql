-- From launch to end of the kernels of a run, as the report cuda_kern_exec_sum of `nsys stats` sums it up: the call, the
-- time in the queue, the execution.
-- A row is one run, rank, thread, device, function and kernel name. A kernel belongs to the call with its correlation in
-- its process and file; a call that launched several kernels (a graph) counts with each of them, and a kernel that a
-- file has two such calls for counts with both, as there; but a call that an nsys export has twice (nsys 2022) is one
-- call here and two there. The queue is left where a kernel began before the call ended:
-- QCount is how many waited. Kernels and calls without start or duration, or with a duration below 0, are left out.
-- Behind `run` and `rank` the columns are those of the report, in its order and with its titles and rounding, to be
-- compared with `nsys stats -r cuda_kern_exec_sum -f csv`.
-- /// query
-- title = "Launch, queue and execution of kernels, as nsys stats sums them up"
-- needs = ["api_calls"]
-- subject = "launches"
-- show = ["run", "rank", "Count", "TAvg (ns)", "AAvg (ns)", "QAvg (ns)", "KAvg (ns)", "Kernel Name"]
-- chart = { kind = "stacked", x = "Kernel Name", y = ["AAvg (ns)", "QAvg (ns)", "KAvg (ns)"], labels = ["API call", "queue", "kernel"], by = "run" }
-- like = { nsys = "launch_latency" }
-- hints = [
--     { when = "exists (from processes_apart($run, $rank))", text = "the clocks of CPU and GPU are apart, and times from one to the other mean little; tracelab doctor --check sync_before_end prints by how much" },
-- ]
-- [params]
-- common = ["run", "rank", "device"]
-- [columns]
-- common = ["run", "rank"]
-- PID = "Process."
-- TID = "Thread that made the call."
-- DevId = "Ordinal of the GPU as the process sees it."
-- Count = "Pairs of call and kernel."
-- QCount = "Those of them whose kernel began when the call had ended, or later."
-- "TAvg (ns)" = "From the call's start to the end of the kernel or, where that is later, of the call: mean."
-- "TMed (ns)" = "Median of that."
-- "TMin (ns)" = "Least of that."
-- "TMax (ns)" = "Most of that."
-- "TStdDev (ns)" = "Standard deviation of that, as of a sample (n - 1)."
-- "AAvg (ns)" = "Duration of the call: mean."
-- "AMed (ns)" = "Median of that."
-- "AMin (ns)" = "Least of that."
-- "AMax (ns)" = "Most of that."
-- "AStdDev (ns)" = "Standard deviation of that, as of a sample (n - 1)."
-- "QAvg (ns)" = "From the call's end to the kernel's start, of the QCount pairs: mean."
-- "QMed (ns)" = "Median of that."
-- "QMin (ns)" = "Least of that."
-- "QMax (ns)" = "Most of that."
-- "QStdDev (ns)" = "Standard deviation of that, as of a sample (n - 1)."
-- "KAvg (ns)" = "Duration of the kernel: mean."
-- "KMed (ns)" = "Median of that."
-- "KMin (ns)" = "Least of that."
-- "KMax (ns)" = "Most of that."
-- "KStdDev (ns)" = "Standard deviation of that, as of a sample (n - 1)."
-- "API Name" = "Function that launched."
-- "Kernel Name" = "Kernel name."
-- ///
with calls as (
    select run, source, pid, tid, correlation, name, start_ns, end_ns, dur_ns
    from api_calls
    where api in ('runtime', 'driver') and has_valid_interval(start_ns, end_ns)
),
executions as (
    select run, source, rank, pid, device, correlation, name, start_ns, end_ns, dur_ns
    from kernels
    where has_valid_interval(start_ns, end_ns)
        and matches(run, $run) and matches(rank, $rank) and matches(device, $device)
),
pairs as (
    select
        k.run, k.rank, k.pid, c.tid, k.device,
        c.name as api_name,
        k.name as kernel_name,
        greatest(k.end_ns, c.end_ns) - c.start_ns as total_ns,
        c.dur_ns as api_ns,
        case when k.start_ns >= c.end_ns then k.start_ns - c.end_ns end as queue_ns,
        k.dur_ns as kernel_ns
    from executions as k
    join calls as c
        on k.run = c.run and k.source = c.source and k.pid is not distinct from c.pid and k.correlation = c.correlation
)
select
    run, rank,
    pid as "PID",
    tid as "TID",
    device as "DevId",
    count(*) as "Count",
    count(queue_ns) as "QCount",
    one_decimal(avg(total_ns)) as "TAvg (ns)",
    one_decimal(median(total_ns)) as "TMed (ns)",
    min(total_ns) as "TMin (ns)",
    max(total_ns) as "TMax (ns)",
    one_decimal(deviation(total_ns)) as "TStdDev (ns)",
    one_decimal(avg(api_ns)) as "AAvg (ns)",
    one_decimal(median(api_ns)) as "AMed (ns)",
    min(api_ns) as "AMin (ns)",
    max(api_ns) as "AMax (ns)",
    one_decimal(deviation(api_ns)) as "AStdDev (ns)",
    one_decimal(avg(queue_ns)) as "QAvg (ns)",
    one_decimal(median(queue_ns)) as "QMed (ns)",
    min(queue_ns) as "QMin (ns)",
    max(queue_ns) as "QMax (ns)",
    one_decimal(deviation(queue_ns)) as "QStdDev (ns)",
    one_decimal(avg(kernel_ns)) as "KAvg (ns)",
    one_decimal(median(kernel_ns)) as "KMed (ns)",
    min(kernel_ns) as "KMin (ns)",
    max(kernel_ns) as "KMax (ns)",
    one_decimal(deviation(kernel_ns)) as "KStdDev (ns)",
    api_name as "API Name",
    kernel_name as "Kernel Name"
from pairs
group by run, rank, pid, tid, device, api_name, kernel_name
order by run, avg(total_ns) desc, rank, pid, tid, device, api_name, kernel_name
