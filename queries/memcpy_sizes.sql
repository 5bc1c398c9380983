-- Which sizes copies have, and how fast each size runs.
-- A row is one run, rank, device, direction, pair of memory kinds and size class: sizes from a power of two up to just
-- below the next. Copies of unknown size are a row whose `from_bytes` is empty. Durations add up over copies that run at
-- once. A short copy costs its latency at any size, so the throughput rises with the size to what the link sustains:
-- where it levels off, larger copies gain no more. 1 GB is 1e9 bytes.
-- /// query
-- title = "Memory copy sizes"
-- needs = ["memcpys"]
-- show = ["run", "rank", "direction", "from_bytes", "to_bytes", "copies", "dur_ns", "throughput_gb_per_s"]
-- chart = { kind = "scatter", x = "mean_bytes", y = ["throughput_gb_per_s", "dur_ns"], by = "direction" }
-- [params]
-- common = ["run", "rank", "device"]
-- [columns]
-- common = ["run", "rank", "device", "direction", "src_memory", "dst_memory"]
-- from_bytes = "Least size of the class."
-- to_bytes = "Largest size of the class."
-- copies = "Copies of that size."
-- size_bytes = "Their bytes, added up."
-- mean_bytes = "size_bytes / copies, rounded to whole bytes."
-- dur_ns = "common"
-- mean_ns = "dur_ns / timed_copies, rounded to whole ns."
-- timed_copies = "Copies with a valid start and duration."
-- timed_bytes = "Bytes of the copies with a valid start and duration."
-- throughput_gb_per_s = "timed_bytes / dur_ns, in 1e9 bytes a second."
-- all_copies = "All copies of the row's direction and memory kinds."
-- of_copies_ratio = "copies / all_copies."
-- all_dur_ns = "Durations of all copies of the row's direction and memory kinds, added up."
-- of_dur_ratio = "dur_ns / all_dur_ns."
-- [report]
-- section = "copies"
-- order = 3
-- ok_text = "No size of copies up to 64 KiB takes more than 10 % of the time of all copies in its direction."
-- unknown = "Which sizes of copies take the time is not known: no copy has both a size and a duration."
-- [[report.findings]]
-- when = "to_bytes <= 65536 and dur_ns > 0.1 * nullif(all_dur_ns, 0)"
-- by = "dur_ns"
-- cost = { ns = "dur_ns", adds = true, topics = ["copies"], leads = false }
-- text = "[{where}: ]{direction} copies of {mean_bytes} on average take {dur_ns of all_dur_ns} of the time of all such copies."
-- advice = "A copy below 64 KiB costs its latency, not its bytes: put several into one."
-- ///
with copies as (
    select
        run, rank, device,
        coalesce(direction, 'unknown') as direction,
        src_memory, dst_memory,
        case when size_bytes >= 0 then size_bytes end as size_bytes,
        case when has_valid_interval(start_ns, end_ns) then dur_ns end as measured_ns
    from memcpys
    where matches(run, $run) and matches(rank, $rank) and matches(device, $device)
),
by_size as (  -- a program copies few different sizes
    select
        run, rank, device, direction, src_memory, dst_memory, size_bytes,
        count(*) as copies,
        count(measured_ns) as timed_copies,
        sum(measured_ns) as dur_ns
    from copies
    group by run, rank, device, direction, src_memory, dst_memory, size_bytes
),
classes as (
    select
        *,
        case when size_bytes > 0 then 1::bigint << (length(bin(size_bytes)) - 1)::integer else size_bytes end as from_bytes
    from by_size
),
sums as (
    select
        run, rank, device, direction, src_memory, dst_memory, from_bytes,
        sum(copies) as copies,
        sum(copies * size_bytes::hugeint) as size_bytes,
        sum(timed_copies) as timed_copies,
        sum(timed_copies * size_bytes::hugeint) as timed_bytes,
        coalesce(sum(dur_ns), 0) as dur_ns
    from classes
    group by run, rank, device, direction, src_memory, dst_memory, from_bytes
),
shares as (
    select
        *,
        sum(copies) over kind as all_copies,
        sum(dur_ns) over kind as all_dur_ns
    from sums
    window kind as (partition by run, rank, device, direction, src_memory, dst_memory)
)
select
    run, rank, device, direction, src_memory, dst_memory, from_bytes,
    case when from_bytes > 0 then from_bytes - 1 + from_bytes else from_bytes end as to_bytes,
    as_bigint(copies) as copies,
    as_bigint(size_bytes) as size_bytes,
    as_bigint(round(size_bytes / copies)) as mean_bytes,
    as_bigint(dur_ns) as dur_ns,
    as_bigint(round(dur_ns / nullif(timed_copies, 0))) as mean_ns,
    as_bigint(timed_copies) as timed_copies,
    as_bigint(timed_bytes) as timed_bytes,
    timed_bytes / nullif(dur_ns, 0) as throughput_gb_per_s,
    as_bigint(all_copies) as all_copies,
    copies / all_copies as of_copies_ratio,
    as_bigint(all_dur_ns) as all_dur_ns,
    dur_ns / nullif(all_dur_ns, 0) as of_dur_ratio
from shares
order by run, rank, device, direction, src_memory, dst_memory, from_bytes
