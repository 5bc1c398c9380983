-- How long each device runs two kernels or more, as kernel_concurrency defines it: the rows of its answer.
-- Of a wanted rank, or of all; in a scope, of its rows.
-- /// of one query
-- /// where device = null
with activity as not materialized (  -- each use reads only its own kinds and columns
    select run, source, rank, device, kind, start_ns, end_ns
    from gpu_activity
    where matches(run, $run) and matches(rank, $rank) and matches(device, $device)
),
executions as (
    select run, source, rank, device, start_ns, end_ns
    from activity
    where kind = 'kernel'
),
counts as (
    select run, rank, device, count(*) as kernels
    from executions
    group by run, rank, device
)
select
    k.run, k.rank, k.device, k.kernels,
    zero_if_missing(b.run, b.busy_ns) as busy_ns,
    zero_if_missing(b.run, b.concurrent_ns) as concurrent_ns,
    b.concurrent_ns / nullif(b.busy_ns, 0) as concurrency_ratio,
    zero_if_missing(w.run, w.window_ns) as window_ns,
    zero_if_missing(b.run, b.concurrent_ns) / nullif(w.window_ns, 0) as of_window_ratio,
    coalesce(b.max_concurrent, 0)::bigint as max_concurrent
from counts as k
left join concurrency('executions') as b on k.run = b.run and k.rank = b.rank and k.device is not distinct from b.device
left join scope_windows('activity') as w on k.run = w.run and k.rank = w.rank and k.device is not distinct from w.device
