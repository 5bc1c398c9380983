-- How fast copies run, and how much of their time goes into small ones.
-- A row is one run, rank, device, direction and pair of memory kinds. Every copy counts in `copies` and `dur_ns`; the
-- throughput is that of copies whose size and time are known. Durations add up over copies that run at once, `busy_ns`
-- does not. A copy within a device moves twice its bytes through the device's memory. 1 GB is 1e9 bytes.
-- /// query
-- title = "Memory copy throughput"
-- needs = ["memcpys"]
-- show = ["run", "rank", "direction", "src_memory", "copies", "size_bytes", "dur_ns", "throughput_gb_per_s"]
-- chart = { kind = "bars", x = "direction", y = ["throughput_gb_per_s"], by = "run" }
-- [params]
-- common = ["run", "rank", "device", "small_bytes"]
-- [columns]
-- common = ["run", "rank", "device", "direction", "src_memory", "dst_memory", "copies"]
-- size_bytes = "Bytes of the copies of known size."
-- dur_ns = "Durations of all copies, added up."
-- sized_dur_ns = "Durations of the copies of known size, added up."
-- throughput_gb_per_s = "timed_bytes / sized_dur_ns, in 1e9 bytes a second."
-- busy_ns = "Time in which at least one of these copies ran."
-- small_copies = "Copies of known size below small_bytes."
-- small_dur_ns = "Durations of the small copies, added up."
-- small_dur_ratio = "small_dur_ns / dur_ns."
-- timed_bytes = "Bytes of the copies of known size and time; less than size_bytes only where a copy has no valid time."
-- [report]
-- section = "copies"
-- order = 1
-- ok_text = "No direction spends more than 10 % of its copying time in small copies."
-- unknown = "How much time small copies take is not known: no copy has both a size and a duration."
-- [[report.findings]]
-- when = "small_dur_ns > 0.1 * nullif(sized_dur_ns, 0)"
-- by = "small_dur_ns"
-- cost = { ns = "small_dur_ns", adds = true, topics = ["copies"], leads = false }
-- text = "[{where}: ]{direction} copies spend {small_dur_ns of sized_dur_ns} of their time in small ones ({small_copies} of {copies})."
-- advice = "Pack small copies into one, and keep scalars on the device: `.item()` in the loop is a copy each."
-- ///
with copies as (
    select
        run, source, rank, device, start_ns, end_ns, size_bytes,
        {'direction': coalesce(direction, 'unknown'), 'src_memory': src_memory, 'dst_memory': dst_memory} as part,
        case when has_valid_interval(start_ns, end_ns) then dur_ns end as measured_ns
    from memcpys
    where matches(run, $run) and matches(rank, $rank) and matches(device, $device)
),
sums as (
    select
        run, rank, device, part,
        count(*) as copies,
        as_bigint(coalesce(sum(size_bytes), 0)) as size_bytes,
        as_bigint(coalesce(sum(measured_ns), 0)) as dur_ns,
        as_bigint(coalesce(sum(measured_ns) filter (size_bytes is not null), 0)) as sized_dur_ns,
        as_bigint(coalesce(sum(size_bytes) filter (measured_ns is not null), 0)) as timed_bytes,
        count(*) filter (size_bytes < $small_bytes) as small_copies,
        as_bigint(coalesce(sum(measured_ns) filter (size_bytes < $small_bytes), 0)) as small_dur_ns
    from copies
    group by run, rank, device, part
)
select
    s.run, s.rank, s.device,
    s.part.direction as direction,
    s.part.src_memory as src_memory,
    s.part.dst_memory as dst_memory,
    s.copies, s.size_bytes, s.dur_ns, s.sized_dur_ns,
    s.timed_bytes / nullif(s.sized_dur_ns, 0) as throughput_gb_per_s,
    zero_if_missing(b.run, b.busy_ns) as busy_ns,
    s.small_copies, s.small_dur_ns,
    s.small_dur_ns / nullif(s.dur_ns, 0) as small_dur_ratio,
    s.timed_bytes
from sums as s
left join busy('copies') as b
    on s.run = b.run and s.rank = b.rank and s.device is not distinct from b.device
    and s.part is not distinct from b.part
order by s.run, s.rank, s.device, direction, src_memory, dst_memory
