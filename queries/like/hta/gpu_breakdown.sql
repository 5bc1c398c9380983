-- Where the time of each rank goes, as Holistic Trace Analysis (HTA 0.5.0, `get_temporal_breakdown`) defines it.
-- A row is one run and rank. It differs from gpu_breakdown: all devices of a rank are one; work that was launched in the
-- last step of the profiler or later is left out, where that step begins at the latest of its marks, those on the GPU
-- included; copies and memsets that nothing hides are non-compute, together with communication; what waits on a stream
-- (`syncs`) counts as busy; times with a fraction of a microsecond are cut to whole ones, each start up and each end down,
-- which makes gaps longer. Communication is only what is called nccl…Kernel…. An op whose arguments name a stream (a launch of
-- Triton's) counts as a kernel.
-- /// query
-- title = "GPU time breakdown, as defined by HTA"
-- needs = ["kernels", "memcpys", "memsets"]
-- show = [
--     "run", "rank", "idle_ns", "compute_ns", "non_compute_ns",
--     "idle_percent", "compute_percent", "non_compute_percent",
-- ]
-- chart = { kind = "stacked", x = "rank", y = ["compute_ns", "non_compute_ns", "out_of_scope_ns", "idle_ns"], by = "run" }
-- [params]
-- common = ["run", "rank", "include_last_profiler_step", "linked_only", "doubles"]
-- [columns]
-- common = ["run", "rank"]
-- idle_ns = "kernel_ns less the time in which any row ran, in the scope or not."
-- compute_ns = "Time in which a kernel ran that is no communication."
-- non_compute_ns = "The rest: time in which only communication, copies, memsets or waiting ran."
-- kernel_ns = "First start to last end of the rows that count."
-- idle_percent = "idle_ns in percent of kernel_ns, two digits."
-- compute_percent = "compute_ns in percent of kernel_ns, two digits."
-- non_compute_percent = "non_compute_ns in percent of kernel_ns, two digits."
-- gpu_rows = "Kernels, copies, memsets, waits and such ops that count."
-- dropped_rows = "Those that were launched too late to count, or by no call of the file."
-- out_of_scope_ns = "Time in which rows outside of the scope ran, alone, or as compute while the scope did not compute; 0 without a scope."
-- ///
with gpu as not materialized (
    select run, source, rank, kind, name, correlation, start_ns, end_ns
    from gpu_activity
    where matches(run, $run) and matches(rank, $rank)
    union all
    select run, source, rank, 'sync', kind, correlation, start_ns, end_ns
    from syncs
    where hta_has_stream(kind, stream, args) and matches(run, $run) and matches(rank, $rank)
    union all
    select run, source, rank, 'op', name, null, start_ns, end_ns
    from ops
    where hta_takes_for_kernel(args) and matches(run, $run) and matches(rank, $rank)
),
calls as not materialized (
    select run, source, correlation, start_ns from unscoped_api_calls where matches(run, $run) and matches(rank, $rank)
),
marks as (  -- of steps in the scope, on all streams
    select run, source, rank, name, start_ns, end_ns
    from unscoped_annotations
    semi join annotations using (run, source, rank, name)
    where name like '%ProfilerStep%' and matches(run, $run)
),
judged as materialized (
    from hta_rows('gpu', 'calls', 'marks', $include_last_profiler_step, $linked_only, $doubles)
),
used as (
    select run, source, rank, device, kind, name, start_ns, end_ns from judged where is_used
),
others as not materialized (
    select
        run, source, rank, null::integer as device,
        hta_start_ns(start_ns, $doubles) as start_ns,
        hta_end_ns(start_ns, end_ns, $doubles) as end_ns
    from out_of_scope_activity
    where matches(run, $run) and matches(rank, $rank) and has_valid_interval(start_ns, end_ns)
),
compute as (
    select run, source, rank, device, start_ns, end_ns
    from used
    where kind = 'graph' or (kind in ('kernel', 'op', 'sync') and hta_is_compute(name))
),
other_compute as materialized (
    from hta_compute_outside('calls', 'marks', $include_last_profiler_step, $linked_only, $doubles)
    where matches(run, $run) and matches(rank, $rank)
),
used_beside as (  -- mostly none: then nothing is swept
    select run, source, rank, device, start_ns, end_ns from used semi join other_compute using (run, source, rank)
),
compute_beside as (
    select run, source, rank, device, start_ns, end_ns from compute semi join other_compute using (run, source, rank)
),
hidden as (  -- behind compute outside of the scope
    select run, rank, ac_ns as hidden_ns from regions('used_beside', 'compute_beside', 'other_compute')
),
source_spans as (
    select run, source, rank, max(end_ns) - min(start_ns) as kernel_ns
    from used
    group by run, source, rank
),
spans as (
    select run, rank, as_bigint(sum(kernel_ns)) as kernel_ns from source_spans group by run, rank
),
counts as (
    select run, rank, count(*) filter (is_used) as gpu_rows, count(*) filter (not is_used) as dropped_rows
    from judged
    group by run, rank
),
parts as (
    select
        c.run, c.rank, c.gpu_rows, c.dropped_rows,
        s.kernel_ns,
        as_bigint(s.kernel_ns - b.busy_ns - zero_if_missing(o.run, o.out_of_scope_ns)) as idle_ns,
        as_bigint(coalesce(o.out_of_scope_ns, 0) + coalesce(h.hidden_ns, 0)) as out_of_scope_ns,
        zero_if_missing(k.run, k.busy_ns) as compute_ns,
        as_bigint(b.busy_ns - zero_if_missing(k.run, k.busy_ns) - coalesce(h.hidden_ns, 0)) as non_compute_ns
    from counts as c
    left join spans as s on c.run = s.run and c.rank = s.rank
    left join hta_busy('used') as b on c.run = b.run and c.rank = b.rank
    left join hta_busy('compute') as k on c.run = k.run and c.rank = k.rank
    left join out_of_scope_times('used', 'others') as o on c.run = o.run and c.rank = o.rank
    left join hidden as h on c.run = h.run and c.rank = h.rank
)
select
    run, rank, idle_ns, compute_ns, non_compute_ns, kernel_ns,
    percent_of(idle_ns, kernel_ns, 2) as idle_percent,
    percent_of(compute_ns, kernel_ns, 2) as compute_percent,
    percent_of(non_compute_ns, kernel_ns, 2) as non_compute_percent,
    gpu_rows, dropped_rows, out_of_scope_ns
from parts
order by run, rank
