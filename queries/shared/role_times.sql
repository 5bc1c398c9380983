-- How long the communication of each parallelism takes and is hidden, as role_overlap defines it: the rows of its answer.
-- In a scope, of its rows.
-- /// of one query
with executions as not materialized (
    select run, source, rank, pid, device, stream, name, start_ns, end_ns, dur_ns, correlation
    from kernels
    where matches(run, $run)
),
communication as not materialized (
    from communication_kernels where in_scope
),
groups as materialized (
    from role_groups('communication_kernels')
),
placed as materialized (
    select run, source, rank, device, start_ns, end_ns, size_bytes, role_source, role as part
    from with_role('communication', 'groups')
),
kinds as (
    select run, source, rank, device, start_ns, end_ns, class from with_class('executions')
),
graphs as (
    select run, source, rank, device, kind, start_ns, end_ns from gpu_activity where kind = 'graph' and matches(run, $run)
),
compute as (
    from hiding_compute('kinds', 'graphs')
    union all
    select run, source, rank, device, start_ns, end_ns from cpu_layers where layer = 0
),
times as (
    select run, rank, part as role, sum(busy_ns) as comm_ns, sum(inside_ns) as hidden_ns
    from clip_to('placed', 'compute')
    group by run, rank, part
),
sums as (
    select
        run, rank, part as role,
        max(role_source) as role_source,
        count(*) as kernels,
        sum(size_bytes) as size_bytes
    from placed
    group by run, rank, part
),
activity as (
    select run, source, rank, device, start_ns, end_ns from gpu_activity where kind in ('kernel', 'graph') and matches(run, $run)
),
spans as (
    select run, rank, sum(window_ns) as window_ns from scope_windows('activity') group by run, rank
)
select
    s.run, s.rank, s.role, s.role_source, s.kernels,
    as_bigint(coalesce(t.comm_ns, 0)) as comm_ns,
    as_bigint(coalesce(t.comm_ns - t.hidden_ns, 0)) as exposed_ns,
    as_bigint(coalesce(t.hidden_ns, 0)) as hidden_ns,
    t.hidden_ns / nullif(t.comm_ns, 0) as hidden_ratio,
    (t.comm_ns - t.hidden_ns) / nullif(w.window_ns, 0) as of_window_ratio,
    as_bigint(w.window_ns) as window_ns,
    as_bigint(s.size_bytes) as size_bytes
from sums as s
left join times as t on s.run = t.run and s.rank = t.rank and s.role = t.role
left join spans as w on s.run = w.run and s.rank = w.rank
