-- Which GPU activities take the time, as nvprof's summary ("GPU activities") defines it.
-- A row is one run, rank and name. It differs from kernel_summary: copies and memsets are among the kernels and count in the
-- sum that Time(%) is of, and all GPUs of a process are one. A kernel's share is so smaller here than among kernels alone.
-- CUDA graphs recorded as a whole are activities too. Migrations of unified memory are not, for nvprof has a table of their
-- own for them. Rows without a valid time are left out.
-- /// query
-- title = "GPU activities, as nvprof sums them up"
-- needs = ["kernels", "memcpys", "memsets"]
-- show = ["run", "rank", "time_percent", "time_ns", "calls", "avg_ns", "max_ns", "name"]
-- chart = { kind = "bars", x = "name", y = ["time_ns"], by = "run" }
-- [params]
-- common = ["run", "rank", "device"]
-- [columns]
-- run = "common"
-- rank = "common"
-- time_percent = "time_ns in percent of gpu_activities_ns, six digits: nvprof's Time(%)."
-- time_ns = "Durations of these activities, added up."
-- calls = "How many they are."
-- common = ["avg_ns", "min_ns", "max_ns"]
-- name = "Kernel name, or nvprof's name for a copy or memset."
-- gpu_activities_ns = "Durations of all activities of the rank, added up."
-- ///
with activity as (
    select
        run, rank, start_ns, end_ns, dur_ns,
        case kind
            when 'memcpy' then '[CUDA memcpy ' || coalesce(name, 'unknown') || ']'
            when 'memset' then '[CUDA memset]'
            else name
        end as name
    from gpu_activity
    where
        matches(run, $run) and matches(rank, $rank) and matches(device, $device)
        and not (kind = 'memcpy' and coalesce(starts_with(name, 'UVM'), false))
)
select
    run, rank,
    percent as time_percent,
    time_ns, calls, avg_ns, min_ns, max_ns, name,
    sum_ns as gpu_activities_ns
from nvprof_sums('activity')
order by run, rank, time_ns desc, name
