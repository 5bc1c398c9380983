-- Which CUDA calls take the time of the processor, as nvprof's summary ("API calls") defines it.
-- A row is one run, rank and function. It differs from api_summary: runtime and driver calls of one name are one, Time(%) is
-- of both APIs together, and calls without a valid time are left out. A runtime call holds the driver calls that it makes,
-- so where both are recorded the sum counts some time twice, there as here.
-- /// query
-- title = "API calls, as nvprof sums them up"
-- needs = ["api_calls"]
-- show = ["run", "rank", "time_percent", "time_ns", "calls", "avg_ns", "max_ns", "name"]
-- chart = { kind = "bars", x = "name", y = ["time_ns"], by = "run" }
-- [params]
-- common = ["run", "rank"]
-- [columns]
-- run = "common"
-- rank = "common"
-- time_percent = "time_ns in percent of api_ns, six digits: nvprof's Time(%)."
-- time_ns = "Durations of these calls, added up."
-- calls = "How many they are."
-- common = ["avg_ns", "min_ns", "max_ns", "name"]
-- api_ns = "Durations of all runtime and driver calls of the rank, added up."
-- ///
with calls as (
    select run, rank, name, start_ns, end_ns, dur_ns
    from api_calls
    where api in ('runtime', 'driver') and matches(run, $run) and matches(rank, $rank)
)
select
    run, rank,
    percent as time_percent,
    time_ns, calls, avg_ns, min_ns, max_ns, name,
    sum_ns as api_ns
from nvprof_sums('calls')
order by run, rank, time_ns desc, name
