-- How much of its copying each device does beside other work, as memcpy_overlap defines it: the rows of its answer.
-- Of a wanted rank, or of all; in a scope, of its rows.
-- /// of one query
-- /// where device = null
with activity as not materialized (  -- each use reads only its own kinds and columns
    select run, source, rank, device, kind, start_ns, end_ns
    from gpu_activity
    where matches(run, $run) and matches(rank, $rank) and matches(device, $device)
),
swept as not materialized (
    select run, source, rank, device, start_ns, end_ns, case kind when 'memcpy' then 1 when 'kernel' then 2 else 3 end::tinyint as number
    from activity
    where kind <> 'memset'
),
lanes as materialized (
    from lanes('swept')
),
rows as materialized (
    select lane, middle_ns, number, start_ns, end_ns from with_lane('swept', 'lanes')
),
counts as (
    select run, rank, device, count(*) as copies
    from activity
    where kind = 'memcpy'
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
    from depth_totals('lanes', 'rows')
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
