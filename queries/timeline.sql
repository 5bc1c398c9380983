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
with everything as not materialized (
    select run, source, start_ns, end_ns from gpu_activity where matches(run, $run)
),
placed as materialized (
    from axis_of('everything')
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
executions as not materialized (
    select run, source, rank, pid, device, stream, name, start_ns, end_ns, dur_ns, correlation
    from kernels
    where matches(run, $run) and matches(rank, $rank) and matches(device, $device)
),
activity as not materialized (
    select run, source, rank, device, kind, start_ns, end_ns
    from gpu_activity
    where matches(run, $run) and matches(rank, $rank) and matches(device, $device)
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
lanes_seen as materialized (
    select
        lane, key, run, source, rank, device, shift_ns, a.first_ns, span_ns, bins,
        l.first_ns + shift_ns as start_ns,
        l.last_ns + shift_ns as end_ns
    from lanes('activity') as l
    join placed using (run, source)
    join axes as a using (run)
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
),
edges as (  -- the bits above count the bins, from 1; the last edge sets them back to 0
    select
        lane,
        bin_edge(number, first_ns, span_ns, bins) as at_ns,
        case when number < bins then 1 else -bins end * (1::hugeint << 96) as step
    from lanes_seen, lateral (select unnest(range(bins + 1)) as number) as n
),
events as (
    select lane, start_ns as at_ns, step from laned
    union all
    select lane, end_ns, -step from laned
    union all
    from edges
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
        sum(dur_ns * kernels) as kernel_ns,
        max(kernels) as max_kernels
    from (  -- of a state, of which a bin has few, all stretches at once
        select
            lane,
            (state >> 96)::integer - 1 as bin,
            (state & 33554431)::bigint + ((state >> 25) & 33554431)::bigint as kernels,
            ((state >> 25) & 33554431) > 0 as communicates,
            ((state >> 50) & 33554431) > 0 as copies,
            (state >> 92) & 7 > 0 as is_out_of_scope,
            (state & 33554431) > 0 or ((state >> 75) & 131071) > 0 as computes,
            computes or communicates and (state >> 92) & 1 = 0 or copies and (state >> 92) & 3 = 0 as is_exposed,
            dur_ns
        from (select lane, depth as state, sum(dur_ns) as dur_ns from running_depth('events') group by lane, depth)
        where state >> 96 > 0 and (state >> 95) & 1 = 1
    )
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
allocations as materialized (
    select row_number() over () as id, run, source, rank, pid, device, time_ns, size_bytes, allocated_bytes, reserved_bytes
    from memory_events
    where device is not null and matches(run, $run) and matches(rank, $rank) and matches(device, $device)
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
devices_seen as materialized (
    select distinct run, rank, device from lanes_seen
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
