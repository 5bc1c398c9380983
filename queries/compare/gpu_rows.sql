-- Kernels, copies and memsets in each step, by name, class and the op that launched them.
-- A row is one run, rank, device, step, kind, name, class, key and op. What belongs to no step has no `step_id`. `key` is the
-- kernel's own name.
with all_steps as materialized (
    from steps_of('annotations', $step_name)
),
activity as materialized (
    select
        row_number() over () as id, run, source, rank, pid, device, stream, kind, name, start_ns, end_ns, dur_ns, correlation,
        external_id
    from gpu_activity
),
placed as (
    from with_class_and_step('activity', 'all_steps')
),
kernel_keys as (
    select name, kernel_key(name) as key from (select distinct name from activity where kind = 'kernel')
),
host_ops as materialized (
    select row_number() over () as id, run, source, pid, tid, name, start_ns, end_ns, external_id from ops
),
points as materialized (
    select id, run, source, pid, external_id, call_tid, call_start_ns from with_calls('activity', 'api_calls')
)
select
    a.run, a.rank, a.device, a.step_id, a.kind, a.name, a.class, k.key,
    o.name as op,
    count(*) as executions,
    as_bigint(coalesce(sum(a.dur_ns) filter (has_valid_interval(a.start_ns, a.end_ns)), 0)) as dur_ns
from placed as a
left join kernel_keys as k on a.kind = 'kernel' and a.name is not distinct from k.name
left join launching_ops('points', 'host_ops') as l on a.id = l.id
left join host_ops as o on l.op = o.id
group by a.run, a.rank, a.device, a.step_id, a.kind, a.name, a.class, k.key, o.name
order by a.run, a.rank, a.device, a.step_id, a.kind, a.name, a.class, k.key, op
