-- Kernels, copies and memsets in each step, by name, class and the op that launched them.
-- A row is one run, rank, device, step, kind, name, class, key and op. `place` is that of the step in the order of time, 0 for what
-- belongs to no step; a run without steps has only that. `key` is the kernel's own name.
with marked as (
    select run, source, rank, pid, name, scope, start_ns, end_ns from annotations
),
all_steps as materialized (
    from steps_of('marked', $step_name)
),
places as (
    select id, row_number() over (partition by run, rank order by start_ns, id) as step_place from all_steps
),
activity as materialized (
    select
        row_number() over () as id, run, source, rank, pid, device, stream, kind, name, start_ns, end_ns, dur_ns, correlation,
        external_id
    from gpu_activity
   
),
executions as (
    select run, source, rank, pid, device, stream, name, start_ns, end_ns, dur_ns, correlation, id as part
    from activity
    where kind = 'kernel'
),
classes as (
    select part as id, class from with_class('executions')
),
kernel_keys as (
    select name, kernel_key(name) as key from (select distinct name from executions)
),
api as (
    select run, source, pid, tid, correlation, start_ns, end_ns from api_calls
),
host_ops as materialized (
    select row_number() over () as id, run, source, pid, tid, name, start_ns, end_ns, external_id from ops
),
ops_by_id as (
    select run, source, pid, external_id, min(id) as op
    from host_ops
    where external_id is not null
    group by run, source, pid, external_id
),
points as materialized (
    select g.id, g.run, g.source, g.pid, g.call_tid as tid, g.call_start_ns as at_ns, g.external_id
    from with_calls('activity', 'api') as g
),
called_points as (
    select id, run, source, pid, tid, at_ns from points where at_ns is not null
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
stepped as (
    select id, step_id from with_step('activity', 'all_steps')
)
select
    a.run, a.rank, a.device,
    coalesce(p.step_place, 0) as place,
    a.kind, a.name, c.class, k.key,
    o.name as op,
    count(*) as executions,
    as_bigint(coalesce(sum(a.dur_ns) filter (has_valid_interval(a.start_ns, a.end_ns)), 0)) as dur_ns
from activity as a
left join stepped as s using (id)
left join places as p on s.step_id = p.id
left join classes as c on a.id = c.id
left join kernel_keys as k on a.kind = 'kernel' and a.name is not distinct from k.name
left join launching_ops as l on a.id = l.id
left join host_ops as o on l.op = o.id
group by a.run, a.rank, a.device, place, a.kind, a.name, c.class, k.key, o.name
order by a.run, a.rank, a.device, place, a.kind, a.name, c.class, k.key, op
