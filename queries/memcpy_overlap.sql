-- How much of the time in which a device copies, it does something else as well: another copy, or a kernel.
-- A row is one run, rank and device that copied. Copies that touch (one ends in the nanosecond the next begins) do not
-- overlap. `compute_overlap_ratio` is nvvp's: of what could overlap at best, the smaller of the two busy times; `hidden` is
-- the share of copying that costs nothing, for kernels ran meanwhile. Communication kernels are kernels here. Kernels and
-- copies inside a CUDA graph that was recorded as a whole are not known; `graph_ns` is the time that this hides.
-- /// query
-- title = "Memory copy overlap"
-- needs = ["memcpys"]
-- show = [
--     "run", "rank", "device", "copies", "copy_busy_ns",
--     "copy_overlap_ratio", "compute_overlap_ratio", "hidden_ratio",
-- ]
-- chart = { kind = "bars", x = "rank", y = ["copy_overlap_ratio", "compute_overlap_ratio", "hidden_ratio"], by = "run" }
-- [params]
-- common = ["run", "rank", "device"]
-- [columns]
-- common = ["run", "rank", "device", "copies"]
-- copy_busy_ns = "Time in which at least one copy ran."
-- copy_concurrent_ns = "Time in which at least two copies ran."
-- copy_overlap_ratio = "copy_concurrent_ns / copy_busy_ns."
-- kernel_busy_ns = "Time in which at least one kernel ran."
-- overlap_ns = "Time in which a copy and a kernel ran."
-- smaller_busy_ns = "The smaller one of copy_busy_ns and kernel_busy_ns."
-- compute_overlap_ratio = "overlap_ns / smaller_busy_ns."
-- hidden_ratio = "overlap_ns / copy_busy_ns."
-- graph_ns = "Time in which a CUDA graph recorded as a whole ran."
-- window_ns = "common"
-- [report]
-- section = "copies"
-- order = 2
-- ok_text = "Kernels hide at least half of the copying on every device."
-- unknown = "Whether kernels hide the copying is not known: no copy has a duration above 0."
-- [[report.findings]]
-- when = "hidden_ratio < 0.5"
-- by = "copy_busy_ns - overlap_ns"
-- cost = { ns = "copy_busy_ns - overlap_ns", adds = true, topics = ["copies"], leads = false }
-- text = "[{where}: ]kernels run beside {overlap_ns of copy_busy_ns} of the copying."
-- advice = "Use pinned memory, `non_blocking=True` and a stream of its own to copy the next batch meanwhile."
-- ///
with activity as not materialized (  -- each use reads only its own kinds and columns
    select run, source, rank, device, kind, start_ns, end_ns
    from gpu_activity
    where matches(run, $run) and matches(rank, $rank) and matches(device, $device)
),
copies as (
    select run, source, rank, device, start_ns, end_ns from activity where kind = 'memcpy'
),
executions as (
    select run, source, rank, device, start_ns, end_ns from activity where kind = 'kernel'
),
graphs as (
    select run, source, rank, device, start_ns, end_ns from activity where kind = 'graph'
),
counts as (
    select run, rank, device, count(*) as copies
    from copies
    group by run, rank, device
),
measures as (
    select
        run, rank, device,
        as_bigint(coalesce(sum(dur_ns) filter (depth_a > 0), 0)) as copy_busy_ns,
        as_bigint(coalesce(sum(dur_ns) filter (depth_a > 1), 0)) as copy_concurrent_ns,
        as_bigint(coalesce(sum(dur_ns) filter (depth_b > 0), 0)) as kernel_busy_ns,
        as_bigint(coalesce(sum(dur_ns) filter (depth_a > 0 and depth_b > 0), 0)) as overlap_ns,
        as_bigint(coalesce(sum(dur_ns) filter (depth_c > 0), 0)) as graph_ns
    from state_totals('copies', 'executions', 'graphs')
    group by run, rank, device
)
select
    c.run, c.rank, c.device, c.copies,
    zero_if_missing(m.run, m.copy_busy_ns) as copy_busy_ns,
    zero_if_missing(m.run, m.copy_concurrent_ns) as copy_concurrent_ns,
    m.copy_concurrent_ns / nullif(m.copy_busy_ns, 0) as copy_overlap_ratio,
    zero_if_missing(m.run, m.kernel_busy_ns) as kernel_busy_ns,
    zero_if_missing(m.run, m.overlap_ns) as overlap_ns,
    zero_if_missing(m.run, case when m.copy_busy_ns < m.kernel_busy_ns then m.copy_busy_ns else m.kernel_busy_ns end) as smaller_busy_ns,
    m.overlap_ns / nullif(least(m.copy_busy_ns, m.kernel_busy_ns), 0) as compute_overlap_ratio,
    m.overlap_ns / nullif(m.copy_busy_ns, 0) as hidden_ratio,
    zero_if_missing(m.run, m.graph_ns) as graph_ns,
    zero_if_missing(w.run, w.window_ns) as window_ns
from counts as c
left join measures as m on c.run = m.run and c.rank = m.rank and c.device is not distinct from m.device
left join scope_windows('activity') as w on c.run = w.run and c.rank = w.rank and c.device is not distinct from w.device
order by c.run, c.rank, c.device
