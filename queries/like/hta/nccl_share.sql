-- How much of communication is hidden behind compute, as Holistic Trace Analysis (HTA 0.5.0, `get_comm_comp_overlap`)
-- defines it.
-- A row is one run and rank. It differs from nccl_share: the share is of the time in which communication ran, not of the
-- device's, and large is good; all devices of a rank are one; work that was launched in the last step of the profiler or
-- later is left out, where that step begins at the latest of its marks, those on the GPU included; times with a fraction of
-- a microsecond are cut to whole ones, each start up and each end down. Communication is only what is called
-- nccl…Kernel…; compute is every other kernel, and an op whose arguments name a stream (a launch of Triton's).
-- /// query
-- title = "Communication behind compute, as defined by HTA"
-- needs = ["kernels"]
-- chart = { kind = "bars", x = "rank", y = ["comp_comm_overlap_percent"], by = "run" }
-- [params]
-- common = ["run", "rank", "include_last_profiler_step", "linked_only", "doubles"]
-- [columns]
-- common = ["run", "rank"]
-- comm_ns = "Time in which communication ran."
-- overlap_ns = "Time in which communication ran, and compute did, in the scope or not."
-- comp_comm_overlap_percent = "overlap_ns in percent of comm_ns, two digits; NULL where nothing communicated."
-- comm_kernels = "Communication kernels that count."
-- dropped_kernels = "Those that were launched too late to count, or by no call of the file."
-- ///
with gpu as not materialized (
    select run, source, rank, kind, name, correlation, start_ns, end_ns
    from gpu_activity
    where kind in ('kernel', 'graph') and matches(run, $run) and matches(rank, $rank)
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
compute as (
    select run, source, rank, device, start_ns, end_ns
    from judged
    where is_used and (kind = 'graph' or hta_is_compute(name))
    union all
    from hta_compute_outside('calls', 'marks', $include_last_profiler_step, $linked_only, $doubles)
    where matches(run, $run) and matches(rank, $rank)
),
communication as (
    select run, source, rank, device, start_ns, end_ns from judged where is_used and hta_is_comm(name)
),
counts as (
    select
        run, rank,
        count(*) filter (hta_is_comm(name) and is_used) as comm_kernels,
        count(*) filter (hta_is_comm(name) and not is_used) as dropped_kernels
    from judged
    group by run, rank
)
select
    c.run, c.rank,
    zero_if_missing(b.run, b.busy_ns) as comm_ns,
    zero_if_missing(o.run, o.overlap_ns) as overlap_ns,
    percent_of(zero_if_missing(o.run, o.overlap_ns), b.busy_ns, 2) as comp_comm_overlap_percent,
    c.comm_kernels, c.dropped_kernels
from counts as c
left join hta_busy('communication') as b on c.run = b.run and c.rank = b.rank
left join overlap('communication', 'compute') as o on c.run = o.run and c.rank = o.rank
order by c.run, c.rank
