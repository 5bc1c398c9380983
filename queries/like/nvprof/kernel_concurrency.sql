-- How much of the time in which a device computes, it runs two kernels or more at once, as NVIDIA's Visual Profiler (nvvp)
-- prints it: "Low Kernel Concurrency: 675.774 us / 12.37502 s = 0 %".
-- A row is one run, rank and device that ran kernels. It differs from kernel_concurrency in what is printed only,
-- the two terms and their percentage in one digit, so that a small one reads as 0; the definition is the same, as far as
-- printed figures show.
-- /// query
-- title = "Kernel concurrency, as defined by nvvp"
-- needs = ["kernels"]
-- chart = { kind = "bars", x = "device", y = ["concurrency_percent"], by = "run" }
-- [params]
-- common = ["run", "rank", "device"]
-- [columns]
-- common = ["run", "rank", "device", "concurrent_ns"]
-- kernel_ns = "Time in which at least one kernel ran."
-- concurrency_percent = "concurrent_ns in percent of kernel_ns, one digit."
-- ///
with executions as (
    select run, source, rank, device, start_ns, end_ns
    from kernels
    where matches(run, $run) and matches(rank, $rank) and matches(device, $device)
)
select
    run, rank, device, concurrent_ns,
    busy_ns as kernel_ns,
    percent_of(concurrent_ns, busy_ns, 1) as concurrency_percent
from concurrency('executions')
order by run, rank, device
