-- Which ops launched which kernels, as op_kernels defines it: a row is one run, rank, device, op, forward op and kernel name, with
-- the sums that its answer shares out. Of a wanted rank, or of all; in a scope, of its kernels.
-- /// of one query
-- /// of a session of one run
-- /// where device = null
-- /// where captures_from = null
with executions as not materialized (
    select
        run, source, rank, pid, device, name, correlation, external_id, graph_node, start_ns, end_ns, stream,
        case when has_valid_interval(start_ns, end_ns) then dur_ns else 0 end as dur_ns
    from kernels
    where matches(run, $run) and matches(rank, $rank) and matches(device, $device)
),
kinds as materialized (
    from kernel_kinds('executions')
),
works as materialized (
    from works_of_kinds('executions', 'kinds')
),
launched as not materialized (
    from launched_works('works', 'kinds')
),
api as not materialized (
    from filtered_calls($run, $rank)
),
replayed as materialized (
    from known_replays($run, $rank, $captures_from)
),
op_rows as not materialized (
    from surrounding_ops($run, $rank, 'replayed')
),
op_threads as materialized (
    from threads('op_rows')
),
op_names as materialized (
    select row_number() over () as number, name from (select distinct name from op_rows)
),
host_ops as materialized (  -- the last 31 bits of an id are the number of the op's name, those before its place in the trace
    select
        (o.id << 31) + n.number as id, t.thread, o.start_ns, o.end_ns, o.external_id, o.sequence_number, o.is_backward
    from op_rows as o
    join hint_small('op_names') as n on o.name is not distinct from n.name
    join hint_small('op_threads') as t
        on o.run = t.run and o.source = t.source and o.pid is not distinct from t.pid and o.tid is not distinct from t.tid
),
threaded_ops as not materialized (
    select o.id, t.run, t.source, t.pid, t.tid, o.start_ns, o.end_ns, o.external_id, o.sequence_number, o.is_backward
    from host_ops as o
    join hint_small('op_threads') as t using (thread)
),
points as materialized (
    select p.id, t.thread, p.at_ns, p.op
    from linked_points('launched', 'api', 'threaded_ops', 'replayed') as p
    join hint_small('op_threads') as t
        on p.run = t.run and p.source = t.source and p.pid is not distinct from t.pid and p.tid is not distinct from t.tid
),
called_points as not materialized (
    from points where op is null
),
backward_calls as materialized (
    from host_ops where is_backward and sequence_number is not null
),
found_ops as (
    select id, parent as op, true as by_launch from thread_innermost('host_ops', 'called_points')
    union all
    select id, op, false from points where op is not null
),
found_forward as (
    select i.id, f.forward & 2147483647 as forward_op
    from thread_innermost('backward_calls', 'points') as i
    left join forward_ops('threaded_ops') as f on i.parent = f.id
),
found as (
    select
        w.kind, p.op & 2147483647 as op, f.forward_op,
        count(*) as calls,
        sum(w.dur_ns) as dur_ns,
        count(f.id) as backward_calls,
        count(*) filter (p.by_launch) as by_launch,
        count(*) filter (not p.by_launch) as by_external_id
    from works as w
    left join found_ops as p using (id)
    left join found_forward as f on w.id = f.id
    group by w.kind, p.op & 2147483647, f.forward_op
)
select
    k.run, k.rank, k.device, o.name as op, b.name as forward_op, k.name as kernel,
    sum(f.calls) as calls,
    sum(f.dur_ns) as dur_ns,
    sum(f.backward_calls) as backward_calls,
    sum(f.by_launch) as by_launch,
    sum(f.by_external_id) as by_external_id
from found as f
join kinds as k using (kind)
left join op_names as o on f.op = o.number
left join op_names as b on f.forward_op = b.number
group by k.run, k.rank, k.device, o.name, b.name, k.name
