-- How long memsets take on each device, as memset_summary defines it: the rows of its answer.
-- Of a wanted rank, or of all; in a scope, of its rows.
-- /// of one query
-- /// where device = null
with sets as (
    select run, source, rank, device, start_ns, end_ns, size_bytes,
        case when has_valid_interval(start_ns, end_ns) then dur_ns end as measured_ns
    from memsets
    where matches(run, $run) and matches(rank, $rank) and matches(device, $device)
),
activity as not materialized (
    select run, source, rank, device, kind, start_ns, end_ns
    from gpu_activity
    where matches(run, $run) and matches(rank, $rank) and matches(device, $device)
),
others as (
    select run, source, rank, device, start_ns, end_ns
    from unscoped_activity
    where kind <> 'memset' and matches(run, $run) and matches(rank, $rank) and matches(device, $device)
),
exposed as (
    select run, rank, device, sum(busy_ns) as busy_ns, sum(busy_ns - inside_ns) as exposed_ns
    from clip_to('sets', 'others')
    group by run, rank, device
),
sums as (
    select
        run, rank, device,
        count(*) as memsets,
        as_bigint(coalesce(sum(size_bytes), 0)) as size_bytes,
        as_bigint(coalesce(sum(measured_ns), 0)) as dur_ns
    from sets
    group by run, rank, device
)
select
    s.run, s.rank, s.device, s.memsets, s.size_bytes, s.dur_ns,
    zero_if_missing(e.run, as_bigint(e.busy_ns)) as busy_ns,
    zero_if_missing(e.run, as_bigint(e.exposed_ns)) as exposed_ns,
    zero_if_missing(w.run, w.window_ns) as window_ns
from sums as s
left join exposed as e on s.run = e.run and s.rank = e.rank and s.device is not distinct from e.device
left join scope_windows('activity') as w on s.run = w.run and s.rank = w.rank and s.device is not distinct from w.device
