-- Advice on a timeline by the rules of NVIDIA's Visual Profiler, which its successors lack, with thresholds that you set.
-- A row is one run, rank, device and rule: a part of a whole, the threshold of their ratio, and a verdict. 'act' is beyond
-- the threshold, and `advice` is what to do; 'minor' would be, but the rule costs the run less than least_share: that is
-- at_stake_ns of all devices beyond the threshold, as a share of the windows of all devices of the run. 'fine' is within the
-- threshold; 'nothing to judge' has no such work. `at_stake_ns` is an upper bound of what following the advice can gain: rows
-- of one device are in its order. NVIDIA never published its thresholds; the defaults are our own.
-- /// query
-- title = "Advice"
-- needs = ["kernels", "memcpys", "graph_launches"]
-- show = ["run", "rank", "device", "rule", "verdict", "measured_ratio", "at_stake_ns", "at_stake_ratio"]
-- chart = { kind = "bars", x = "rule", y = ["at_stake_ratio", "measured_ratio"], by = "run" }
-- [params]
-- common = ["run", "rank", "device"]
-- low_utilization = { default = 0.8, about = "a device that computes for a smaller part of its window is used too little" }
-- low_concurrency = { default = 0.1, about = "a smaller part of busy time with two kernels or more is low concurrency" }
-- low_overlap = { default = 0.5, about = "a smaller part of copying with a kernel beside it is low overlap" }
-- low_copy_concurrency = { default = 0.1, about = "a smaller part of copying with another in the other direction beside it is low overlap of copies" }
-- many_small = { default = 0.1, about = "a larger part of copying that goes into small copies is too much" }
-- many_slow = { default = 0.1, about = "a larger part of copying that goes into slow copies is too much" }
-- small_bytes = "common"
-- slow_gb_per_s = { default = 6.0, about = "a copy that is not small and has a lower throughput is a slow one; 6 is half of what pinned memory reaches over PCIe 3.0 x16" }
-- least_share = { default = 0.01, about = "a rule with a smaller part of the windows of all devices at stake is minor" }
-- [columns]
-- common = ["run", "rank", "device"]
-- rule = "low_compute_utilization, low_kernel_concurrency, low_compute_copy_overlap, low_copy_overlap, small_copies or slow_copies."
-- verdict = "act, minor, fine, or nothing to judge."
-- part_ns = "Of the rules in that order: time in which a kernel or whole graph ran; two kernels; a kernel and a copy; copies both to and from the host; durations of the small copies; of the slow ones."
-- whole_ns = "In that order: the window; time in which a kernel ran; the smaller one of the times in which kernels and copies ran; of those in which copies ran to and from the host; durations of all copies; the same."
-- measured_ratio = "part_ns / whole_ns."
-- threshold = "Rules that begin with low apply below it, the others above it."
-- at_stake_ns = "At most so much can be gained: of low rules the rest of the whole, of the others the part; of low_kernel_concurrency half the time in which one kernel ran alone that computes and has fewer blocks than the device has multiprocessors, or an unknown shape."
-- window_ns = "common"
-- at_stake_ratio = "at_stake_ns / run_window_ns."
-- advice = "What to do, where the verdict is act."
-- run_window_ns = "Windows of all devices of the run, added up: what the cost of a finding is a share of."
-- [report]
-- section = "rules"
-- order = 1
-- row = "GPU[s]"
-- row_key = "concat_ws(' ', rank, device)"
-- ok_text = "No rule of the Visual Profiler applies: each measure is within its threshold, or its potential saving is too small a part of the window."
-- unknown = "The rules of the Visual Profiler have nothing to judge: nothing that ran on a device took any time that is known."
-- [[report.findings]]
-- when = "case when rule = 'low_compute_utilization' then nullif(verdict, 'nothing to judge') = 'act' end"
-- by = "at_stake_ns"
-- cost = { ns = "at_stake_ns", adds = true, topics = ["data", "host", "launches", "dependency", "copies"], leads = false }
-- text = "{rule}[, most of all on {where}]: {part_ns of whole_ns}, against a threshold of {threshold %}."
-- advice = "Next: {advice}."
-- [[report.findings]]
-- when = "rule = 'low_kernel_concurrency' and verdict = 'act'"
-- by = "at_stake_ns"
-- cost = { ns = "at_stake_ns", adds = true, topics = ["parallelism"], leads = false }
-- text = "{rule}[, most of all on {where}]: {part_ns of whole_ns}, against a threshold of {threshold %}."
-- advice = "Next: {advice}."
-- [[report.findings]]
-- when = "rule not in ('low_compute_utilization', 'low_kernel_concurrency') and verdict = 'act'"
-- by = "at_stake_ns"
-- cost = { ns = "at_stake_ns", adds = ["rule"], topics = ["copies"], leads = false }
-- each = "rule"
-- most = 4
-- text = "{rule}[, most of all on {where}]: {part_ns of whole_ns}, against a threshold of {threshold %}."
-- advice = "Next: {advice}."
-- ///
with activity as not materialized (  -- each use reads only its own kinds and columns
    select run, source, rank, device, kind, name, start_ns, end_ns
    from gpu_activity
    where matches(run, $run)
),
executions as not materialized (
    select run, source, rank, device, start_ns, end_ns from activity where kind = 'kernel'
),
graphs as (
    select run, source, rank, device, start_ns, end_ns from activity where kind = 'graph'
),
inward as (
    select run, source, rank, device, start_ns, end_ns
    from activity
    where kind = 'memcpy' and name in ('HtoD', 'UVM HtoD')
),
outward as (
    select run, source, rank, device, start_ns, end_ns
    from activity
    where kind = 'memcpy' and name in ('DtoH', 'UVM DtoH')
),
devices_seen as (
    select distinct run, rank, device from activity
),
executions_beside as (  -- mostly none: then nothing is swept
    from executions semi join graphs using (run, source, rank)
),
times as (
    select
        run, rank, device,
        sum(dur_ns) filter (wide + narrow > 0) as kernel_ns,
        sum(dur_ns) filter (wide + narrow > 1) as two_kernels_ns,
        sum(dur_ns) filter (wide = 0 and narrow = 1) as lone_narrow_ns,
        sum(dur_ns) filter (copies > 0) as copy_ns,
        sum(dur_ns) filter (wide + narrow > 0 and copies > 0) as both_ns
    from width_states
    where matches(run, $run)
    group by run, rank, device
),
directions as (
    select
        run, rank, device,
        abc_ns as two_ways_ns,
        least(a_ns::hugeint, bc_ns::hugeint) + abc_ns as smaller_way_ns
    from regions('inward', 'outward', 'outward')
),
copy_sums as (
    select
        run, rank, device,
        sum(dur_ns) as copies_ns,
        sum(dur_ns) filter (size_bytes < $small_bytes) as small_ns,
        sum(dur_ns) filter (size_bytes >= $small_bytes and size_bytes < dur_ns * $slow_gb_per_s) as slow_ns
    from memcpys
    where has_valid_interval(start_ns, end_ns) and matches(run, $run)
    group by run, rank, device
),
measures as (
    select
        d.run, d.rank, d.device,
        zero_if_missing(w.run, w.window_ns) as window_ns,
        coalesce(t.kernel_ns, 0) as kernel_ns,
        coalesce(t.two_kernels_ns, 0) as two_kernels_ns,
        coalesce(t.kernel_ns, 0) + coalesce(try(g.busy_ns - g.inside_ns), 0) as compute_ns,
        coalesce(t.copy_ns, 0) as copy_ns,
        coalesce(t.lone_narrow_ns, 0) as lone_narrow_ns,
        coalesce(b.two_ways_ns, 0) as two_ways_ns,
        coalesce(b.smaller_way_ns, 0) as smaller_way_ns,
        coalesce(t.both_ns, 0) as both_ns,
        coalesce(c.copies_ns, 0) as copies_ns,
        coalesce(c.small_ns, 0) as small_ns,
        coalesce(c.slow_ns, 0) as slow_ns
    from devices_seen as d
    left join scope_windows('activity') as w on d.run = w.run and d.rank = w.rank and d.device is not distinct from w.device
    left join times as t on d.run = t.run and d.rank = t.rank and d.device is not distinct from t.device
    left join directions as b on d.run = b.run and d.rank = b.rank and d.device is not distinct from b.device
    left join clip_to('graphs', 'executions_beside') as g
        on d.run = g.run and d.rank = g.rank and d.device is not distinct from g.device
    left join copy_sums as c on d.run = c.run and d.rank = c.rank and d.device is not distinct from c.device
),
rules as (
    select
        run, rank, device, window_ns,
        unnest([
            {
                'rule': 'low_compute_utilization', 'part_ns': compute_ns, 'whole_ns': window_ns,
                'threshold': $low_utilization, 'is_low': true,
                'at_stake_ns': window_ns - compute_ns,
                'advice': 'query idle_causes: where the host is late, batch or fuse small operations, use CUDA graphs and feed '
                    || 'the device from more loader workers; where kernels wait for copies, overlap them'
            },
            {
                'rule': 'low_kernel_concurrency', 'part_ns': two_kernels_ns, 'whole_ns': kernel_ns,
                'threshold': $low_concurrency, 'is_low': true,
                'at_stake_ns': lone_narrow_ns // 2,
                'advice': 'query kernel_shapes: kernels with blocks_per_sm below 1 leave multiprocessors free, so run '
                    || 'independent ones on streams of their own, or enlarge the batch; kernels that occupy the whole device gain nothing'
            },
            {
                'rule': 'low_compute_copy_overlap', 'part_ns': both_ns, 'whole_ns': least(kernel_ns, copy_ns),
                'threshold': $low_overlap, 'is_low': true,
                'at_stake_ns': least(kernel_ns, copy_ns) - both_ns,
                'advice': 'copy the next batch while this one computes: pinned memory, asynchronous copies '
                    || '(non_blocking=True) and a stream of their own'
            },
            {
                'rule': 'low_copy_overlap', 'part_ns': two_ways_ns, 'whole_ns': smaller_way_ns,
                'threshold': $low_copy_concurrency, 'is_low': true,
                'at_stake_ns': smaller_way_ns - two_ways_ns,
                'advice': 'devices copy to and from the host at once: put the two directions on streams of their own, '
                    || 'with pinned memory'
            },
            {
                'rule': 'small_copies', 'part_ns': small_ns, 'whole_ns': copies_ns,
                'threshold': $many_small, 'is_low': false,
                'at_stake_ns': small_ns,
                'advice': 'query memcpy_sizes: pack small copies into one, keep scalars on the device (.item() and .cpu() in '
                    || 'the loop are a copy each), or map host memory'
            },
            {
                'rule': 'slow_copies', 'part_ns': slow_ns, 'whole_ns': copies_ns,
                'threshold': $many_slow, 'is_low': false,
                'at_stake_ns': slow_ns,
                'advice': 'query memcpy_throughput: copies from pageable memory go through a staging buffer, so pin host '
                    || 'memory (pin_memory=True); if they are pinned already, look at the link (PCIe width, NUMA node)'
            }
        ], recursive := true)
    from measures
),
judged as (
    select
        *,
        case
            when is_low then part_ns / nullif(whole_ns, 0) < threshold
            else part_ns / nullif(whole_ns, 0) > threshold
        end as applies
    from rules
),
run_windows as (
    select run, sum(window_ns) as run_window_ns from measures group by run
),
verdicts as (
    select
        j.*, w.run_window_ns,
        case
            when j.applies is null then 'nothing to judge'
            when not j.applies then 'fine'
            when sum(j.at_stake_ns) filter (j.applies) over (partition by j.run, j.rule) < $least_share * w.run_window_ns
                then 'minor'
            else 'act'
        end as verdict
    from judged as j
    join run_windows as w on j.run = w.run
)
select
    run, rank, device, rule, verdict,
    as_bigint(part_ns) as part_ns,
    as_bigint(whole_ns) as whole_ns,
    part_ns / nullif(whole_ns, 0) as measured_ratio,
    threshold::double as threshold,
    as_bigint(at_stake_ns) as at_stake_ns,
    window_ns,
    at_stake_ns / nullif(run_window_ns, 0) as at_stake_ratio,
    case when verdict = 'act' then advice end as advice,
    as_bigint(run_window_ns) as run_window_ns
from verdicts
where matches(rank, $rank) and matches(device, $device)
order by run, rank, device, verdict = 'act' desc, at_stake_ns desc, rule
