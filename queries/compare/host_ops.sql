-- Self time of ops in each step.
-- A row is one run, rank, step and op: an op counts in the step in which it begins, on any thread.
with all_steps as materialized (
    from steps_of('annotations', $step_name)
),
host_ops as materialized (
    select row_number() over () as id, run, source, rank, pid, tid, name, start_ns, end_ns from ops
),
stepped as (
    select id, run, source, rank, pid, tid, name, start_ns, end_ns, step_id
    from host_ops
    left join begun_step('host_ops', 'all_steps') using (id)
),
kinds as materialized (
    select row_number() over () as kind, run, rank, step_id, name
    from (select distinct run, rank, step_id, name from stepped)
),
calls as materialized (
    select k.kind, s.run, s.source, s.pid, s.tid, s.start_ns, s.end_ns
    from stepped as s
    join hint_small('kinds') as k
        on s.run = k.run and s.rank = k.rank and s.step_id is not distinct from k.step_id and s.name is not distinct from k.name
)
select
    k.run, k.rank, k.step_id,
    k.name as op,
    as_bigint(t.calls) as calls,
    as_bigint(t.self_ns) as self_ns
from self_times('calls') as t
join kinds as k using (kind)
where t.self_ns is not null
order by k.run, k.rank, k.step_id, k.name
