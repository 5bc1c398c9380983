-- Kernels of one step of one rank and device in the order of their starts, with what launched them.
-- A row is one kernel: the op and the shapes of its inputs, the innermost range of its thread at the launch, and its grid.
with marked as (
    select run, source, rank, pid, name, scope, start_ns, end_ns from annotations where run = $run and rank = $rank
),
all_steps as materialized (
    from steps_of('marked', $step_name)
),
places as (
    select id, row_number() over (partition by rank order by start_ns, id) as step_place from all_steps
),
executions as materialized (
    select
        row_number() over (order by start_ns, stream, correlation, name) as id, run, source, rank, pid, device, stream, name,
        start_ns, end_ns, dur_ns, correlation, external_id,
        coalesce(grid_x, 0)::bigint * coalesce(grid_y, 1) * coalesce(grid_z, 1) as blocks
    from kernels
    where run = $run and rank = $rank and device is not distinct from $device
),
parted as (
    select run, source, rank, pid, device, stream, name, start_ns, end_ns, dur_ns, correlation, id as part from executions
),
classed as (
    select part as id, class from with_class('parted')
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
    select id, run, source, pid, call_tid as tid, call_start_ns as at_ns, external_id
    from with_calls('executions', 'api')
),
called_points as (
    select id, run, source, pid, tid, at_ns from points where at_ns is not null
),
ops_by_id as (
    select run, source, pid, external_id, min(id) as op
    from host_ops
    where external_id is not null
    group by run, source, pid, external_id
),
launching_ops as (
    select id, parent as op from innermost('host_ops', 'called_points')
    union all
    select p.id, b.op
    from points as p
    join ops_by_id as b
        on p.run = b.run and p.source = b.source and p.pid is not distinct from b.pid and p.external_id = b.external_id
    where p.at_ns is null
),
launching_ranges as (
    select i.id, r.name as range_name from innermost('host_ranges', 'called_points') as i join host_ranges as r on i.parent = r.id
),
stepped as (
    select id, step_id from with_step('executions', 'all_steps')
)
select
    e.name, c.class, e.blocks, o.id as op_call, o.name as op, o.input_shapes, r.range_name,
    case when has_valid_interval(e.start_ns, e.end_ns) then e.dur_ns else 0 end as dur_ns
from executions as e
left join classed as c using (id)
left join stepped as s using (id)
left join places as p on s.step_id = p.id
left join launching_ops as l on e.id = l.id
left join host_ops as o on l.op = o.id
left join launching_ranges as r on e.id = r.id
where coalesce(p.step_place, 0) = $place
order by e.id
