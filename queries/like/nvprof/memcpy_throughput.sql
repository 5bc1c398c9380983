-- How fast copies run, as nvprof (`--print-gpu-trace`) has the throughput of each.
-- A row is one run, rank and direction. It differs from memcpy_throughput: a GB is 1024³ bytes, so figures are 7 % smaller;
-- the mean is that of the copies' own throughputs, in which a small copy counts as much as a large one; all GPUs of a
-- process and all kinds of memory are one. Copies without a size or a valid time above 0 are left out.
-- /// query
-- title = "Memory copy throughput, as defined by nvprof"
-- needs = ["memcpys"]
-- show = ["run", "rank", "name", "copies", "size_bytes", "time_ns", "avg_gib_per_s", "overall_gib_per_s"]
-- chart = { kind = "bars", x = "name", y = ["avg_gib_per_s"], by = "run" }
-- [params]
-- common = ["run", "rank", "device"]
-- [columns]
-- common = ["run", "rank"]
-- name = "nvprof's word for the copies of a direction."
-- copies = "Copies that count."
-- size_bytes = "Their bytes."
-- time_ns = "Their durations, added up."
-- avg_gib_per_s = "Mean of their throughputs, in 1024³ bytes a second."
-- min_gib_per_s = "The lowest throughput."
-- max_gib_per_s = "The highest throughput."
-- overall_gib_per_s = "size_bytes / time_ns, in 1024³ bytes a second."
-- ///
with copies as (
    select
        run, rank, size_bytes, dur_ns,
        case
            when starts_with(direction, 'UVM') then '[Unified Memory Memcpy' || direction[4:] || ']'
            else '[CUDA memcpy ' || coalesce(direction, 'unknown') || ']'
        end as name,
        size_bytes / dur_ns * 1e9 / 1073741824 as gib_per_s
    from memcpys
    where
        matches(run, $run) and matches(rank, $rank) and matches(device, $device)
        and has_valid_interval(start_ns, end_ns) and dur_ns > 0 and size_bytes is not null
)
select
    run, rank, name,
    count(*) as copies,
    as_bigint(sum(copies.size_bytes)) as size_bytes,
    as_bigint(sum(dur_ns)) as time_ns,
    avg(gib_per_s) as avg_gib_per_s,
    min(gib_per_s) as min_gib_per_s,
    max(gib_per_s) as max_gib_per_s,
    sum(copies.size_bytes) / sum(dur_ns) * 1e9 / 1073741824 as overall_gib_per_s
from copies
group by run, rank, name
order by run, rank, name
