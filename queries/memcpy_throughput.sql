-- How fast copies run, and how much of their time goes into small ones.
-- A row is one run, rank, device, direction and pair of memory kinds. Every copy counts in `copies` and `dur_ns`; the
-- throughput is that of copies whose size and time are known. Durations add up over copies that run at once, `busy_ns`
-- does not; `exposed_ns` is the part of that in which no kernel and no whole graph runs. A copy within a device moves
-- twice its bytes through the device's memory. 1 GB is 1e9 bytes.
-- /// query
-- title = "Memory copy throughput"
-- needs = ["memcpys"]
-- show = ["run", "rank", "direction", "src_memory", "dst_memory", "copies", "dur_ns", "exposed_ns", "throughput_gb_per_s"]
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
-- exposed_ns = "The part of busy_ns in which no kernel of the device and no whole graph ran."
-- window_ns = "common"
-- [report]
-- section = "copies"
-- order = 1
-- row = "kind[s] of copies"
-- ok_text = "No direction spends more than 10 % of its copying time in small copies, or copies for more than 10 % of the window while no kernel runs."
-- unknown = "How much time small copies take is not known: no copy has both a size and a duration."
-- [[report.findings]]
-- when = "small_dur_ns > 0.1 * nullif(sized_dur_ns, 0)"
-- by = "small_dur_ns"
-- cost = { ns = "small_dur_ns", adds = true, topics = ["copies"], leads = false }
-- text = "[{where}: ]{direction} copies spend {small_dur_ns of sized_dur_ns} of their time in small ones ({small_copies} of {copies})."
-- advice = "Pack small copies into one, and keep scalars on the device: `.item()` in the loop is a copy each."
-- [[report.findings]]
-- when = "direction = 'HtoD' and src_memory = 'Pageable' and exposed_ns > 0.1 * nullif(window_ns, 0)"
-- by = "exposed_ns"
-- cost = { ns = "exposed_ns", rows = "direction = 'HtoD' and src_memory = 'Pageable'", adds = true, topics = ["copies"], detail = 2 }
-- what_if = { change = "no_copies", kernel = "pageable$", without = "With copies from pageable memory that take no time" }
-- text = "[{where}: ]copies from pageable host memory to the device take {exposed_ns of window_ns} of the window while no kernel runs."
-- every = "{where}: copies from pageable host memory to the device take {exposed_ns of window_ns} of the windows while no kernel runs."
-- advice = "Pin the host memory (`pin_memory=True` of the loader), and copy the next batch with `non_blocking=True` on a stream of its own while this one computes."
-- [[report.findings]]
-- when = "direction = 'HtoD' and src_memory is distinct from 'Pageable' and exposed_ns > 0.1 * nullif(window_ns, 0)"
-- by = "exposed_ns"
-- cost = { ns = "exposed_ns", rows = "direction = 'HtoD' and src_memory is distinct from 'Pageable'", adds = true, topics = ["copies"], detail = 2 }
-- what_if = { change = "no_copies", kernel = "^HtoD$", without = "With copies to the device that take no time" }
-- text = "[{where}: ]copies from host memory[ ({src_memory})] to the device take {exposed_ns of window_ns} of the window while no kernel runs."
-- every = "{where}: copies from host memory that is not pageable to the device take {exposed_ns of window_ns} of the windows while no kernel runs."
-- advice = "Copy the next batch on a stream of its own while this one computes; what is left then waits for the link: send fewer bytes."
-- [[report.findings]]
-- when = "direction = 'DtoH' and exposed_ns > 0.1 * nullif(window_ns, 0)"
-- by = "exposed_ns"
-- cost = { ns = "exposed_ns", rows = "direction = 'DtoH'", adds = true, topics = ["copies"], detail = 2 }
-- what_if = { change = "no_copies", kernel = "^DtoH$", without = "With copies to the host that take no time" }
-- text = "[{where}: ]copies from the device to host memory take {exposed_ns of window_ns} of the window while no kernel runs."
-- every = "{where}: copies from the device to host memory take {exposed_ns of window_ns} of the windows while no kernel runs."
-- advice = "Copy results less often, and into pinned memory with `non_blocking=True`: `.item()` and `.cpu()` in the loop stop the device."
-- [[report.findings]]
-- when = "direction = 'DtoD' and exposed_ns > 0.1 * nullif(window_ns, 0)"
-- by = "exposed_ns"
-- cost = { ns = "exposed_ns", rows = "direction = 'DtoD'", adds = true, topics = ["copies"], detail = 2 }
-- what_if = { change = "no_copies", kernel = "^DtoD$", without = "With copies within devices that take no time" }
-- text = "[{where}: ]copies within the device take {exposed_ns of window_ns} of the window while no kernel runs."
-- every = "{where}: copies within the device take {exposed_ns of window_ns} of the windows while no kernel runs."
-- advice = "Write results in place: `clone`, `contiguous`, `cat` and the buckets of DDP copy (`gradient_as_bucket_view=True` avoids the latter)."
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
    zero_if_missing(e.run, e.busy_ns) as busy_ns,
    s.small_copies, s.small_dur_ns,
    s.small_dur_ns / nullif(s.dur_ns, 0) as small_dur_ratio,
    s.timed_bytes,
    zero_if_missing(e.run, e.exposed_ns) as exposed_ns,
    zero_if_missing(e.run, e.window_ns) as window_ns
from sums as s
left join copy_times as e
    on s.run = e.run and s.rank = e.rank and s.device is not distinct from e.device and s.part.direction = e.direction
    and s.part.src_memory is not distinct from e.src_memory and s.part.dst_memory is not distinct from e.dst_memory
order by s.run, s.rank, s.device, direction, src_memory, dst_memory
