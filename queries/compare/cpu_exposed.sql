-- How long ranks communicate on the CPU in each step while no op computes, of runs without kernels.
-- A row is one run, rank and step.
with all_steps as materialized (
    from steps_of('annotations', $step_name)
),
communication as materialized (
    select run, source, rank, start_ns, end_ns
    from annotations
    where scope = 'cpu' and is_cpu_communication(name) and has_valid_interval(start_ns, end_ns)
        and run not in (select run from kernels)
),
lanes as materialized (
    select (row_number() over (order by run, source, rank))::integer as lane, run, source, rank
    from (select distinct run, source, rank from communication)
),
work as (
    select l.lane, 1::tinyint as layer, c.start_ns, c.end_ns
    from communication as c
    join lanes as l on c.run = l.run and c.source = l.source and c.rank = l.rank
    union all
    select l.lane, 0::tinyint, o.start_ns, o.end_ns
    from ops as o
    join lanes as l on o.run = l.run and o.source = l.source and o.rank = l.rank
    where is_computing_op(o.name) and has_valid_interval(o.start_ns, o.end_ns)
),
spans as materialized (
    select l.lane, l.run, l.rank, s.id as step_id, s.start_ns, s.end_ns
    from all_steps as s
    join lanes as l on s.run = l.run and s.source = l.source and s.rank = l.rank
    where s.step is not null and s.end_ns > s.start_ns
),
cuts as materialized (
    from cuts_at('spans')
)
select s.run, s.rank, s.step_id, as_bigint(coalesce(t.exposed_comm_ns, 0)) as exposed_comm_ns
from spans as s
join cuts as c on s.lane = c.lane and s.end_ns = c.at_ns
left join layer_times('work', 'cuts') as t on c.cell = t.cell
order by s.run, s.rank, s.step_id
