-- Kernels of each device by time.
-- A row is one run, rank, device and kernel name, template arguments included. Every execution counts in `calls`; the
-- durations are those of `timed_calls`, which leave out executions without start or duration, or with a duration below 0.
-- Durations add up over kernels that run at once, so the shares are of the sum, not of the time that passed.
-- /// query
-- title = "Kernel summary"
-- needs = ["kernels"]
-- on_cpu = "op_summary"
-- show = ["run", "rank", "device", "kernel", "calls", "dur_ns", "of_kernel_sum_ratio", "mean_ns"]
-- chart = { kind = "bars", x = "kernel", y = ["dur_ns"], by = "run" }
-- [params]
-- common = ["run", "rank", "device"]
-- top = { type = "integer", example = 10, about = "only that many kernels of each device, those with the largest dur_ns" }
-- [columns]
-- run = "common"
-- rank = "common"
-- device = "common"
-- kernel = "common"
-- calls = "Executions."
-- dur_ns = "Durations of the executions, added up."
-- common = ["mean_ns", "median_ns", "min_ns", "max_ns", "kernel_sum_ns", "of_kernel_sum_ratio"]
-- timed_calls = "Executions with a valid start and duration."
-- class = "common"
-- [report]
-- section = "kernels"
-- order = 2
-- ok_text = "No single kernel takes more than 20 % of its device's kernel time."
-- unknown = "Which kernel takes the most time is not known: no kernel has a duration above 0."
-- [[report.findings]]
-- when = "dur_ns > 0.2 * nullif(kernel_sum_ns, 0) and kernel ilike 'nccl%'"
-- by = "dur_ns"
-- text = "[{where}: ]{kernel} takes {dur_ns of kernel_sum_ns} of the kernel time, in {calls} calls[ of {mean_ns} on average]."
-- advice = "It communicates, and its time holds the waiting for other ranks: see the parts about communication."
-- [[report.findings]]
-- when = "dur_ns > 0.2 * nullif(kernel_sum_ns, 0) and kernel not ilike 'nccl%'"
-- by = "dur_ns"
-- text = "[{where}: ]{kernel} takes {dur_ns of kernel_sum_ns} of the kernel time, in {calls} calls[ of {mean_ns} on average]."
-- advice = "A kernel of this share is worth a profile by ncu, and its place under the roofline."
-- ///
with executions as (
    select run, rank, device, name, case when has_valid_interval(start_ns, end_ns) then dur_ns end as measured_ns
    from kernels
    where matches(run, $run) and matches(rank, $rank) and matches(device, $device)
),
by_name as (
    select
        run, rank, device, name,
        count(*) as calls,
        count(measured_ns) as timed_calls,
        coalesce(sum(measured_ns), 0) as dur_ns,
        as_bigint(round(avg(measured_ns))) as mean_ns,
        as_bigint(round(median(measured_ns))) as median_ns,
        min(measured_ns) as min_ns,
        max(measured_ns) as max_ns
    from executions
    group by run, rank, device, name
),
ranked as (
    select
        *,
        sum(dur_ns) over (partition by run, rank, device) as kernel_sum_ns,
        row_number() over (partition by run, rank, device order by dur_ns desc, name) as place
    from by_name
)
select
    k.run, k.rank, k.device,
    k.name as kernel,
    k.calls,
    as_bigint(k.dur_ns) as dur_ns,
    k.mean_ns, k.median_ns, k.min_ns, k.max_ns,
    as_bigint(k.kernel_sum_ns) as kernel_sum_ns,
    k.dur_ns / nullif(k.kernel_sum_ns, 0) as of_kernel_sum_ratio,
    k.timed_calls,
    c.class
from ranked as k
join classify('by_name') as c on k.name is not distinct from c.name
where $top is null or k.place <= $top
order by k.run, k.rank, k.device, k.dur_ns desc, kernel
