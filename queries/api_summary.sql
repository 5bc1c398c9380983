-- Runtime and driver calls by CPU time.
-- A row is one run, rank, API and function. Every call counts in `calls`; the durations are those of `timed_calls`, which
-- leave out calls without start or duration, or with a duration below 0. Durations add up over threads, and a runtime call
-- holds the driver calls that it makes, so the shares are of the sum, not of the time that passed. A call that waits for
-- the device is long for what it waits for.
-- /// query
-- title = "API summary"
-- needs = ["api_calls"]
-- show = ["run", "rank", "name", "calls", "dur_ns", "of_api_sum_ratio", "mean_ns", "max_ns"]
-- chart = { kind = "bars", x = "name", y = ["dur_ns"], by = "run" }
-- [params]
-- common = ["run", "rank"]
-- api = { type = "text", example = "runtime", about = "only this API: runtime, driver, osrt, cublas …, or all of them; without it runtime and driver" }
-- [columns]
-- run = "common"
-- rank = "common"
-- api = "The API: runtime, driver, osrt, cublas …"
-- name = "common"
-- calls = "common"
-- dur_ns = "Durations of the calls, added up."
-- mean_ns = "common"
-- max_ns = "common"
-- api_sum_ns = "Durations of all selected calls of the rank, added up."
-- common = ["of_api_sum_ratio", "timed_calls", "median_ns", "min_ns"]
-- threads = "Threads that called."
-- failed_calls = "Calls that returned another code than 0; NULL where the source keeps none."
-- [report]
-- section = "host"
-- order = 1
-- ok_text = "No synchronization takes more than 20 % of the time in API calls, and no allocation of device memory more than 10 %."
-- unknown = "Which calls take the time is not known: no call has a duration above 0."
-- [[report.findings]]
-- when = "name ilike '%synchronize%' and dur_ns > 0.2 * nullif(api_sum_ns, 0)"
-- by = "dur_ns"
-- text = "[{where}: ]{name} takes {dur_ns of api_sum_ns} of the time in API calls, over {calls} calls."
-- advice = "Waiting is not work. Take out synchronizations that nothing needs, such as `.item()` and prints in the loop."
-- [[report.findings]]
-- when = "name in ('cudaMalloc', 'cudaFree', 'hipMalloc', 'hipFree') and dur_ns > 0.1 * nullif(api_sum_ns, 0)"
-- by = "dur_ns"
-- text = "[{where}: ]{name} takes {dur_ns of api_sum_ns} of the time in API calls."
-- advice = "These are calls of start-up, or of an allocator that runs out: profile steps behind the warm-up."
-- ///
with selected as (
    select run, rank, api, name, pid, tid, return_value, case when has_valid_interval(start_ns, end_ns) then dur_ns end as measured_ns
    from api_calls
    where matches(run, $run) and matches(rank, $rank)
        and case coalesce($api, '') when '' then api in ('runtime', 'driver') when 'all' then true else api = $api end
),
by_name as (
    select
        run, rank, api, name,
        count(*) as calls,
        count(measured_ns) as timed_calls,
        coalesce(sum(measured_ns), 0) as dur_ns,
        as_bigint(round(avg(measured_ns))) as mean_ns,
        as_bigint(round(median(measured_ns))) as median_ns,
        min(measured_ns) as min_ns,
        max(measured_ns) as max_ns,
        count(distinct (pid, tid)) as threads,
        case when count(return_value) > 0 then count(*) filter (return_value <> 0) end as failed_calls
    from selected
    group by run, rank, api, name
)
select
    run, rank, api, name, calls,
    as_bigint(dur_ns) as dur_ns,
    mean_ns, max_ns,
    as_bigint(sum(dur_ns) over (partition by run, rank)) as api_sum_ns,
    dur_ns / nullif(sum(dur_ns) over (partition by run, rank), 0) as of_api_sum_ratio,
    timed_calls, median_ns, min_ns, threads, failed_calls
from by_name
order by run, rank, by_name.dur_ns desc, api, name
