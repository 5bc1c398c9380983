-- The runtime and driver calls of a run as the report cuda_api_sum of `nsys stats` sums them up.
-- A row is one run and function. Durations add up over threads and over calls inside calls. A call without start or
-- duration, or with a duration below 0, is left out. A store has the functions without the suffix of their version
-- (_v7000), so a function that was called in two versions is one row here and two there; and a call that an export has
-- twice (as CUPTI recorded it, and as an event of nsys' own around that: nsys 2022) counts once here and twice there.
-- Behind `run` and `sum_ns` the columns are those of the report, in its order and with its titles and rounding, to be
-- compared with `nsys stats -r cuda_api_sum -f csv`; all devices, processes and ranks of a run are one group, as there.
-- /// query
-- title = "API calls, as nsys stats sums them up"
-- needs = ["api_calls"]
-- subject = "host"
-- show = ["run", "Time (%)", "Total Time (ns)", "Num Calls", "Avg (ns)", "Med (ns)", "Max (ns)", "Name"]
-- chart = { kind = "bars", x = "Name", y = ["Total Time (ns)"], by = "run" }
-- like = { nsys = "api_summary" }
-- [params]
-- common = ["run", "rank"]
-- [columns]
-- run = "common"
-- sum_ns = "Durations of all calls of the run, added up."
-- "Time (%)" = "common"
-- "Total Time (ns)" = "Durations of these calls, added up."
-- "Num Calls" = "How many they are."
-- "Avg (ns)" = "Total Time (ns) / Num Calls."
-- common = ["Med (ns)", "Min (ns)", "Max (ns)", "StdDev (ns)"]
-- Name = "Function name."
-- ///
with listed as (
    select run, name as part, start_ns, end_ns, dur_ns
    from api_calls
    where api in ('runtime', 'driver') and matches(run, $run) and matches(rank, $rank)
)
select
    run, sum_ns,
    percent as "Time (%)",
    total_ns as "Total Time (ns)",
    instances as "Num Calls",
    avg_ns as "Avg (ns)",
    med_ns as "Med (ns)",
    min_ns as "Min (ns)",
    max_ns as "Max (ns)",
    deviation_ns as "StdDev (ns)",
    part as "Name"
from durations_by('listed')
order by run, "Total Time (ns)" desc, "Name"
