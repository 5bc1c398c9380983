-- Self time of ops in each step.
-- A row is one run, rank, step and op: an op counts in the step in which it begins, on any thread. `place` is as in gpu_rows.
with marked as (
    select run, source, rank, pid, name, scope, start_ns, end_ns from annotations
),
all_steps as materialized (
    from steps_of('marked', $step_name)
),
placed_steps as materialized (
    select process, start_ns, end_ns, row_number() over (partition by run, rank order by start_ns, id) as step_place
    from all_steps
),
host_ops as materialized (
    select row_number() over () as id, run, source, rank, pid, tid, name, start_ns, end_ns from ops
),
nest as materialized (
    select id, end_ns - start_ns as dur_ns, parent from nesting('host_ops')
),
shares as (
    select id, dur_ns as self_ns, 1 as calls from nest
    union all
    select parent, -dur_ns, 0 from nest where parent is not null
),
own as (
    select id, sum(self_ns) as self_ns, sum(calls) as calls from shares group by id
),
stepped as (
    select o.id, case when o.start_ns < s.end_ns then s.step_place end as step_place
    from with_process('host_ops', 'all_steps') as o
    asof join placed_steps as s on o.process = s.process and o.start_ns >= s.start_ns
)
select
    o.run, o.rank,
    coalesce(s.step_place, 0) as place,
    o.name as op,
    as_bigint(sum(w.calls)) as calls,
    as_bigint(sum(w.self_ns)) as self_ns
from host_ops as o
join own as w using (id)
left join stepped as s using (id)
group by o.run, o.rank, place, o.name
order by o.run, o.rank, place, o.name
