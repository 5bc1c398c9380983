-- Kernels of one step of one rank and device in the order of their starts, with what launched them.
-- A row is one kernel: the op and the shapes of its inputs, the innermost range of its thread at the launch, and its grid.
with all_steps as materialized (
    from steps_of('annotations', $step_name)
),
executions as materialized (
    select
        row_number() over (order by start_ns, stream, correlation, name) as id, run, source, rank, pid, device, stream, name,
        'kernel' as kind, start_ns, end_ns, dur_ns, correlation, external_id,
        coalesce(grid_x, 0)::bigint * coalesce(grid_y, 1) * coalesce(grid_z, 1) as blocks
    from kernels
    where run = $run and rank = $rank and device is not distinct from $device
),
api as (
    select run, source, pid, tid, correlation, start_ns, end_ns from api_calls where run = $run and rank = $rank
),
host_ops as materialized (
    select row_number() over () as id, run, source, pid, tid, name, start_ns, end_ns, external_id, input_shapes
    from ops
    where run = $run and rank = $rank
),
host_ranges as materialized (
    select row_number() over () as id, run, source, pid, tid, name, start_ns, end_ns
    from annotations
    where run = $run and rank = $rank and scope = 'cpu' and not regexp_matches(name, $step_name)
),
points as materialized (
    select id, run, source, pid, external_id, call_tid, call_start_ns from with_calls('executions', 'api')
),
moments as (
    select id, run, source, pid, call_tid as tid, call_start_ns as at_ns from points where call_start_ns is not null
)
select
    e.name, e.class, e.blocks, o.id as op_call, o.name as op, o.input_shapes, r.name as range_name,
    case when has_valid_interval(e.start_ns, e.end_ns) then e.dur_ns else 0 end as dur_ns
from with_class_and_step('executions', 'all_steps') as e
left join launching_ops('points', 'host_ops') as l on e.id = l.id
left join host_ops as o on l.op = o.id
left join innermost('host_ranges', 'moments') as i on e.id = i.id
left join host_ranges as r on i.parent = r.id
where e.step_id = $step_id
order by e.id
