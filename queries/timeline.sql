-- Activity of each device over time: compute, hidden and exposed communication, copies, idle.
-- A row is one run, rank, device and bin: the run's time from first to last GPU activity of any rank is cut into `bins` of
-- equal length, to the nanosecond, and what spans bins is cut at their edges. Each nanosecond counts once, for the first
-- that applies, as in gpu_breakdown, whose figures are the sums over all bins; compute_alone_ns, overlapped_comm_ns,
-- exposed_comm_ns, exposed_memory_ns, idle_ns and outside_ns add up to `bin_ns`. Sources on the time of day share the axis;
-- others, which cannot be compared, are on it one after another. Bins of a power of two merge in pairs.
-- /// query
-- title = "Timeline"
-- needs = ["kernels", "memcpys", "memsets", "graph_launches"]
-- show = ["run", "rank", "device", "at_ns", "compute_ns", "exposed_comm_ns", "exposed_memory_ns", "idle_ns"]
-- chart = { kind = "timeline", x = "at_ns", y = ["compute_alone_ns", "overlapped_comm_ns", "exposed_comm_ns", "exposed_memory_ns", "idle_ns"], by = "run" }
-- [params]
-- common = ["run", "rank", "device"]
-- bins = { default = 100, about = "bins of equal length" }
-- from_ns = { type = "integer", about = "only from there on, in ns since the first GPU activity of the run" }
-- to_ns = { type = "integer", about = "only up to there" }
-- most_devices = { type = "integer", about = "only so many devices, the first by run, rank and device" }
-- [columns]
-- common = ["run", "rank", "device"]
-- bin = "Number of the bin, from 0."
-- at_ns = "Start of the bin, since the first GPU activity of the run."
-- bin_ns = "Length of the bin."
-- compute_ns = "common"
-- compute_alone_ns = "compute_ns without overlapped_comm_ns."
-- overlapped_comm_ns = "Time in which communication and compute ran together; part of compute_ns."
-- exposed_comm_ns = "common"
-- exposed_memory_ns = "common"
-- idle_ns = "Time in which nothing ran, between the first start and the last end of the device's activity in a source."
-- outside_ns = "Time before, behind and between these, of which nothing was recorded of the device, and out_of_scope_ns of gpu_breakdown."
-- mean_kernels = "Kernels in flight, on average over bin_ns."
-- max_kernels = "Most kernels in flight at once."
-- kernel_ns = "Time that kernels ran, each counted; mean_kernels = kernel_ns / bin_ns."
-- copy_bytes = "Bytes of copies of known size and time, each spread evenly over its duration, so that a copy's bytes add up."
-- copy_gb_per_s = "copy_bytes / bin_ns, in 1e9 bytes a second."
-- allocated_bytes = "Allocated by the framework at the end of the bin; NULL before the first memory event."
-- max_allocated_bytes = "The most that was allocated in the bin."
-- reserved_bytes = "Reserved by the allocator at the end of the bin."
-- [report]
-- section = "when"
-- ok_text = "No device has much more idle time, exposed communication or exposed copies in one stretch of its time than in the others: the shares above hold throughout."
-- unknown = "How the shares change over time is not known: nothing that ran on a device took any time that is known."
-- [[report.findings]]
-- when = "idle_ns > 0.2 * (bin_ns - outside_ns) and idle_ns * sum(bin_ns - outside_ns) over (partition by run, rank, device) > 2 * (bin_ns - outside_ns) * sum(idle_ns) over (partition by run, rank, device)"
-- by = "idle_ns"
-- cost = { ns = "idle_ns", topics = ["data", "host", "launches", "dependency"], leads = false }
-- next = "idle_causes"
-- text = "From {at_ns} on, {where} idles for {idle_ns of bin_ns}: at least twice its average."
-- advice = "Zoom in there: at the beginning it is warm-up, which later steps do not pay; between steps it is the data, a checkpoint or a validation. See the causes of idle time below."
-- [[report.findings]]
-- when = "exposed_comm_ns > 0.1 * (bin_ns - outside_ns) and exposed_comm_ns * sum(bin_ns - outside_ns) over (partition by run, rank, device) > 2 * (bin_ns - outside_ns) * sum(exposed_comm_ns) over (partition by run, rank, device)"
-- by = "exposed_comm_ns"
-- cost = { ns = "exposed_comm_ns", topics = ["waiting", "transfer", "receiving"], leads = false }
-- next = "nccl_share"
-- text = "From {at_ns} on, {where} has {exposed_comm_ns of bin_ns} of exposed communication: at least twice its average."
-- advice = "Look there for the straggler, and for a collective that nothing can hide (the first, the last, a barrier)."
-- [[report.findings]]
-- when = "exposed_memory_ns > 0.1 * (bin_ns - outside_ns) and exposed_memory_ns * sum(bin_ns - outside_ns) over (partition by run, rank, device) > 2 * (bin_ns - outside_ns) * sum(exposed_memory_ns) over (partition by run, rank, device)"
-- by = "exposed_memory_ns"
-- cost = { ns = "exposed_memory_ns", topics = ["copies"], leads = false }
-- next = "memcpy_throughput"
-- text = "From {at_ns} on, {where} has {exposed_memory_ns of bin_ns} of exposed copies: at least twice its average."
-- advice = "Where it is the beginning, it is the model and its data going to the device once; else pin host memory and copy while this batch computes."
-- ///
with
-- /// if kept = true
states as not materialized (
    from device_states where matches(run, $run) and matches(rank, $rank) and matches(device, $device)
),
placed as materialized (
    select distinct run, source, shift_ns, length_ns from device_states where matches(run, $run)
),
keyed as (
    select distinct lane_key(run, source, rank, device, null) as key, run, source, rank, device, first_ns, last_ns, bin_ns as near_ns
    from states
),
matching_lanes as (
    from lane_numbers('keyed')
),
-- /// end
-- /// if kept = false
everything as not materialized (
    select run, source, rank, device, start_ns, end_ns from gpu_activity where matches(run, $run)
),
all_lanes as materialized (
    from lanes('everything')
),
extents as (
    select run, source, first_ns as start_ns, last_ns as end_ns from all_lanes
),
placed as materialized (
    from axis_of('extents')
),
matching_lanes as (
    from all_lanes where matches(rank, $rank) and matches(device, $device)
),
-- /// end
own_lanes as (
    from matching_lanes qualify $most_devices is null or dense_rank() over (order by run, rank, device) <= $most_devices
),
axes as materialized (
    select run, first_ns, span_ns, greatest(least($bins, span_ns), 1)::integer as bins
    from (
        select
            run,
            least(greatest(coalesce($from_ns, 0), 0), max(length_ns)) as first_ns,
            greatest(least(coalesce($to_ns, max(length_ns)), max(length_ns)) - first_ns, 0) as span_ns
        from placed
        group by run
    )
    where span_ns > 0 and $bins > 0
),
lanes_seen as materialized (
    select
        l.* exclude (first_ns, last_ns), a.first_ns, span_ns, bins, shift_ns,
        l.first_ns + shift_ns as start_ns,
        l.last_ns + shift_ns as end_ns
    from own_lanes as l
    join placed using (run, source)
    join axes as a using (run)
),
-- /// if kept = true
kept_bins as (
    select distinct
        l.lane, s.start_ns as kept_ns, s.start_ns + l.shift_ns as start_ns, s.end_ns + l.shift_ns as end_ns,
        l.first_ns, l.span_ns, l.bins
    from states as s
    join lanes_seen as l on lane_key(s.run, s.source, s.rank, s.device, null) = l.key
),
kept_pieces as materialized (
    select *, piece_start_ns = start_ns and piece_end_ns = end_ns as is_whole from split_at_bins('kept_bins')
),
pieces as materialized (  -- of bins that an edge cuts: only rows near one are swept again
    select lane, bin, piece_start_ns as start_ns, piece_end_ns as end_ns from kept_pieces where not is_whole
),
cut_lanes as materialized (
    from lanes_seen semi join pieces using (lane)
),
-- /// end
-- /// if kept = false
pieces as (
    select
        lane, bin,
        bin_edge(bin, first_ns, span_ns, bins) as start_ns,
        bin_edge(bin + 1, first_ns, span_ns, bins) as end_ns
    from lanes_seen, lateral (select unnest(range(bins))::integer as bin) as n
),
-- /// end
executions as not materialized (
    select k.run, k.source, k.rank, k.pid, k.device, k.stream, k.name, k.start_ns, k.end_ns, k.dur_ns, k.correlation
    from kernels as k
    -- /// if kept = true
    join cut_lanes as l
        on lane_key(k.run, k.source, k.rank, k.device, null) = l.key
        and is_near_edge(try(k.start_ns + l.shift_ns), try(k.end_ns + l.shift_ns), l.near_ns, l.first_ns, l.span_ns, l.bins)
    -- /// end
    where matches(k.run, $run) and matches(k.rank, $rank) and matches(k.device, $device)
),
activity as not materialized (
    select g.run, g.source, g.rank, g.device, g.kind, g.start_ns, g.end_ns
    from gpu_activity as g
    -- /// if kept = true
    join cut_lanes as l
        on lane_key(g.run, g.source, g.rank, g.device, null) = l.key
        and is_near_edge(try(g.start_ns + l.shift_ns), try(g.end_ns + l.shift_ns), l.near_ns, l.first_ns, l.span_ns, l.bins)
    -- /// end
    where matches(g.run, $run) and matches(g.rank, $rank) and matches(g.device, $device)
),
rows_seen as (  -- from this bit on, 25 bits of a running sum count the rows of a kind, 17 the graphs
    select
        lane_key(run, source, rank, device, null) as key, start_ns, end_ns,
        case when class = 'communication' then 25 else 0 end::tinyint as first_bit
    from with_class('executions')
    where has_valid_interval(start_ns, end_ns)
    union all
    select lane_key(run, source, rank, device, null), start_ns, end_ns, case when kind = 'graph' then 75 else 50 end::tinyint
    from activity
    where kind <> 'kernel' and has_valid_interval(start_ns, end_ns)
),
others as (  -- of a scope: what runs outside of it, by its layer
    select 3 * l.lane + o.layer as lane, o.start_ns + l.shift_ns as start_ns, o.end_ns + l.shift_ns as end_ns
    from out_of_scope_rows('activity', 'out_of_scope_layers') as o
    join lanes_seen as l on lane_key(o.run, o.source, o.rank, o.device, null) = l.key
),
laned as not materialized (
    select l.lane, r.start_ns + l.shift_ns as start_ns, r.end_ns + l.shift_ns as end_ns, 1::hugeint << r.first_bit as step
    from rows_seen as r
    join lanes_seen as l using (key)
    union all
    select lane, start_ns, end_ns, 1::hugeint << 95 from lanes_seen  -- between these, uncovered time is idle
    union all
    select lane // 3, start_ns, end_ns, 1::hugeint << (92 + lane % 3) from merged('others')
    union all
    select lane, start_ns, end_ns, (1 + bin) * (1::hugeint << 96) from pieces  -- the bits above are the bin, from 1
),
events as (
    select lane, start_ns as at_ns, step from laned
    union all
    select lane, end_ns, -step from laned
),
swept as (  -- of a state, of which a bin has few, all stretches at once
    select
        lane,
        (state >> 96)::integer - 1 as bin,
        (state & 33554431)::bigint + ((state >> 25) & 33554431)::bigint as max_kernels,
        ((state >> 25) & 33554431) > 0 as communicates,
        ((state >> 50) & 33554431) > 0 as copies,
        (state >> 92) & 7 > 0 as is_out_of_scope,
        (state & 33554431) > 0 or ((state >> 75) & 131071) > 0 as computes,
        computes or communicates and (state >> 92) & 1 = 0 or copies and (state >> 92) & 3 = 0 as is_exposed,
        dur_ns,
        dur_ns * max_kernels as kernel_ns
    from (select lane, depth as state, sum(dur_ns) as dur_ns from running_depth('events') group by lane, depth)
    where state >> 96 > 0 and (state >> 95) & 1 = 1
),
binned as (
    from swept
    -- /// if kept = true
    union all by name
    select
        p.lane, p.bin, s.max_kernels, s.communicates, s.copies,
        false as is_out_of_scope,
        s.computes or s.runs_graph as computes,
        s.computes or s.runs_graph or s.communicates or s.copies as is_exposed,
        s.dur_ns, s.kernel_ns
    from states as s
    join lanes_seen as l on lane_key(s.run, s.source, s.rank, s.device, null) = l.key
    join kept_pieces as p on l.lane = p.lane and s.start_ns = p.kept_ns
    where p.is_whole
    -- /// end
),
sums as (
    select
        lane, bin,
        sum(dur_ns) filter (is_exposed or not is_out_of_scope) as recorded_ns,
        coalesce(sum(dur_ns) filter (computes), 0) as compute_ns,
        coalesce(sum(dur_ns) filter (computes and communicates), 0) as overlapped_comm_ns,
        coalesce(sum(dur_ns) filter (is_exposed and not computes and communicates), 0) as exposed_comm_ns,
        coalesce(sum(dur_ns) filter (is_exposed and not computes and not communicates), 0) as exposed_memory_ns,
        coalesce(sum(dur_ns) filter (not is_exposed and not is_out_of_scope), 0) as idle_ns,
        sum(kernel_ns) as kernel_ns,
        max(max_kernels) as max_kernels
    from binned
    group by lane, bin
),
copies as (
    select
        lane, first_ns, span_ns, bins, size_bytes,
        m.start_ns + shift_ns as start_ns,
        m.end_ns + shift_ns as end_ns
    from (
        select lane_key(run, source, rank, device, null) as key, start_ns, end_ns, size_bytes
        from memcpys
        where size_bytes is not null and dur_ns > 0 and has_valid_interval(start_ns, end_ns)
    ) as m
    join lanes_seen using (key)
),
copied as (
    select
        lane, bin,
        sum(
            size_bytes::hugeint * (piece_end_ns - start_ns) // (end_ns - start_ns)
            - size_bytes::hugeint * (piece_start_ns - start_ns) // (end_ns - start_ns)
        ) as copy_bytes
    from split_at_bins('copies')
    group by lane, bin
),
devices_seen as materialized (
    select distinct run, rank, device from lanes_seen
),
allocations as materialized (
    select row_number() over () as id, run, source, rank, pid, device, time_ns, size_bytes, allocated_bytes, reserved_bytes
    from memory_events
    where
        device is not null and matches(run, $run) and matches(rank, $rank) and matches(device, $device)
        and ($most_devices is null or (run, rank, device) in (from devices_seen))
),
held as materialized (  -- after the last event of each instant
    select
        run, rank, device, at_ns,
        last(allocated_bytes order by id) as allocated_bytes,
        last(reserved_bytes order by id) as reserved_bytes,
        max(allocated_bytes) as max_allocated_bytes
    from (
        select m.* exclude (at_ns), m.time_ns + p.shift_ns as at_ns
        from memory_totals('allocations') as m
        join placed as p on m.run = p.run and m.source = p.source
        where has_valid_interval(m.time_ns, m.time_ns)
    )
    group by run, rank, device, at_ns
),
grid as materialized (
    select
        d.run, d.rank, d.device, b.bin,
        bin_edge(b.bin, a.first_ns, a.span_ns, a.bins) as at_ns,
        bin_edge(b.bin + 1, a.first_ns, a.span_ns, a.bins) as end_ns
    from devices_seen as d
    join axes as a using (run), lateral (select unnest(range(a.bins))::integer as bin) as b
),
highest as (
    select
        h.run, h.rank, h.device,
        bin_of(h.at_ns, a.first_ns, a.span_ns, a.bins) as bin,
        max(h.max_allocated_bytes) as max_allocated_bytes
    from held as h
    join axes as a using (run)
    where h.at_ns >= a.first_ns and h.at_ns < a.first_ns + a.span_ns
    group by h.run, h.rank, h.device, bin
),
kept as (
    select g.run, g.rank, g.device, g.bin, h.allocated_bytes, h.reserved_bytes
    from (select run, rank, coalesce(device, -1) as device, bin, end_ns - 1 as at_ns from grid) as g
    asof left join held as h on g.run = h.run and g.rank = h.rank and g.device = h.device and g.at_ns >= h.at_ns
),
figures as (
    select
        l.run, l.rank, l.device, s.bin,
        sum(s.recorded_ns) as recorded_ns, sum(s.compute_ns) as compute_ns, sum(s.overlapped_comm_ns) as overlapped_comm_ns,
        sum(s.exposed_comm_ns) as exposed_comm_ns, sum(s.exposed_memory_ns) as exposed_memory_ns, sum(s.idle_ns) as idle_ns,
        sum(s.kernel_ns) as kernel_ns, max(s.max_kernels) as max_kernels, sum(c.copy_bytes) as copy_bytes
    from sums as s
    join lanes_seen as l using (lane)
    left join copied as c on s.lane = c.lane and s.bin = c.bin
    group by l.run, l.rank, l.device, s.bin
),
filled as (
    select
        g.run, g.rank, g.device, g.bin, g.at_ns,
        g.end_ns - g.at_ns as bin_ns,
        f.* exclude (run, rank, device, bin),
        k.allocated_bytes, k.reserved_bytes,
        lag(k.allocated_bytes) over (partition by g.run, g.rank, g.device order by g.bin) as held_before_bytes,
        h.max_allocated_bytes
    from grid as g
    left join figures as f on g.run = f.run and g.rank = f.rank and g.device is not distinct from f.device and g.bin = f.bin
    left join kept as k on g.run = k.run and g.rank = k.rank and g.device = k.device and g.bin = k.bin
    left join highest as h on g.run = h.run and g.rank = h.rank and g.device = h.device and g.bin = h.bin
)
select
    run, rank, device,
    bin::bigint as bin,
    at_ns, bin_ns,
    as_bigint(coalesce(compute_ns, 0)) as compute_ns,
    as_bigint(coalesce(compute_ns - overlapped_comm_ns, 0)) as compute_alone_ns,
    as_bigint(coalesce(overlapped_comm_ns, 0)) as overlapped_comm_ns,
    as_bigint(coalesce(exposed_comm_ns, 0)) as exposed_comm_ns,
    as_bigint(coalesce(exposed_memory_ns, 0)) as exposed_memory_ns,
    as_bigint(coalesce(idle_ns, 0)) as idle_ns,
    as_bigint(greatest(bin_ns - coalesce(recorded_ns, 0), 0)) as outside_ns,
    coalesce(kernel_ns, 0) / bin_ns as mean_kernels,
    coalesce(max_kernels, 0)::bigint as max_kernels,
    as_bigint(coalesce(kernel_ns, 0)) as kernel_ns,
    as_bigint(coalesce(copy_bytes, 0)) as copy_bytes,
    coalesce(copy_bytes, 0) / bin_ns as copy_gb_per_s,
    allocated_bytes,
    greatest(max_allocated_bytes, held_before_bytes) as max_allocated_bytes,
    reserved_bytes
from filled
order by run, rank, device, bin
