-- The time in which so many wide kernels, narrow kernels and copies run at once, by state_totals(). A wide kernel has a block for
-- each multiprocessor, or communicates.
with multiprocessors as (
    select run, rank, device, max(sm_count) as sm_count
    from devices
    group by run, rank, device
),
executions as not materialized (
    select
        k.run, k.source, k.rank, k.pid, k.device, k.stream, k.name, k.start_ns, k.end_ns, k.dur_ns, k.correlation,
        {'covers_device': k.grid_x::hugeint * k.grid_y * k.grid_z >= m.sm_count} as part
    from kernels as k
    left join multiprocessors as m on k.run = m.run and k.rank = m.rank and k.device = m.device
    where matches(k.run, $run)
),
activity as not materialized (
    select run, source, rank, device, kind, start_ns, end_ns
    from gpu_activity
    where kind in ('kernel', 'memcpy') and matches(run, $run)
),
lanes as materialized (
    from lanes('activity')
),
numbered as not materialized (  -- a kernel that communicates has few blocks on purpose
    select
        run, source, rank, device, start_ns, end_ns,
        case when part.covers_device or class = 'communication' then 1 else 2 end::tinyint as number
    from with_class('executions')
    union all
    select run, source, rank, device, start_ns, end_ns, 3::tinyint from activity where kind = 'memcpy'
),
rows as materialized (
    select lane, middle_ns, number, start_ns, end_ns from with_lane('numbered', 'lanes')
)
select run, source, rank, device, dur_ns::bigint as dur_ns, depth_a as wide, depth_b as narrow, depth_c as copies
from depth_totals('lanes', 'rows')
