-- What each stream of a device does, and when it alone does so. Of a wanted rank, or of all.
with activity as not materialized (  -- each use reads only its own kinds and columns
    select
        run, source, rank, pid, device, stream, kind, name, start_ns, end_ns, dur_ns, correlation,
        {'context': context, 'stream': stream} as part
    from gpu_activity
    where matches(run, $run) and matches(rank, $rank)
),
executions as not materialized (
    select run, source, rank, pid, device, stream, name, start_ns, end_ns, dur_ns, correlation, part
    from activity
    where kind = 'kernel'
),
sums as (
    select
        run, rank, device, part,
        count(*) filter (kind = 'kernel') as kernels,
        count(*) filter (kind = 'memcpy') as copies,
        count(*) filter (kind = 'memset') as memsets,
        count(*) filter (kind = 'graph') as graphs,
        sum(dur_ns) filter (has_valid_interval(start_ns, end_ns)) as dur_ns,
        sum(dur_ns) filter (kind = 'kernel' and has_valid_interval(start_ns, end_ns)) as kernel_dur_ns,
        sum(dur_ns) filter (kind in ('memcpy', 'memset') and has_valid_interval(start_ns, end_ns)) as copy_dur_ns,
        sum(dur_ns) filter (kind = 'graph' and has_valid_interval(start_ns, end_ns)) as graph_dur_ns
    from activity
    group by run, rank, device, part
),
communication as (
    select run, rank, device, part, sum(dur_ns) filter (has_valid_interval(start_ns, end_ns)) as comm_dur_ns
    from with_class('executions')
    where class = 'communication'
    group by run, rank, device, part
),
others as materialized (
    select run, source, rank, device, {'context': context, 'stream': stream} as part, start_ns, end_ns
    from out_of_scope_activity
    where matches(run, $run) and matches(rank, $rank)
),
lone as (
    from scope_solo_time('activity', 'others')
),
device_sums as (
    select run, rank, device, max(any_ns) as busy_ns, max(any_ns) - sum(alone_ns) as shared_ns
    from lone
    group by run, rank, device
)
select
    s.run, s.rank, s.device,
    s.part.context as context,
    s.part.stream as stream,
    s.kernels, s.copies, s.memsets, s.graphs,
    as_bigint(coalesce(s.dur_ns, 0)) as dur_ns,
    as_bigint(coalesce(s.kernel_dur_ns, 0)) as kernel_dur_ns,
    as_bigint(coalesce(c.comm_dur_ns, 0)) as comm_dur_ns,
    as_bigint(coalesce(s.copy_dur_ns, 0)) as copy_dur_ns,
    as_bigint(coalesce(s.graph_dur_ns, 0)) as graph_dur_ns,
    zero_if_missing(a.run, a.busy_ns) as busy_ns,
    zero_if_missing(a.run, a.alone_ns) as alone_ns,
    zero_if_missing(d.run, d.busy_ns) as device_busy_ns,
    zero_if_missing(d.run, as_bigint(d.shared_ns)) as shared_ns,
    zero_if_missing(w.run, w.window_ns) as window_ns
from sums as s
left join communication as c
    on s.run = c.run and s.rank = c.rank and s.device is not distinct from c.device and s.part is not distinct from c.part
left join lone as a
    on s.run = a.run and s.rank = a.rank and s.device is not distinct from a.device and s.part is not distinct from a.part
left join device_sums as d on s.run = d.run and s.rank = d.rank and s.device is not distinct from d.device
left join scope_windows('activity') as w on s.run = w.run and s.rank = w.rank and s.device is not distinct from w.device
