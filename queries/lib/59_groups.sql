-- Roles of process groups: tensor, pipeline, data, context or expert parallel.

-- role_groups(operations): the process groups of a relation of collective_kernels(), each with its role. A group is a run's
-- name, description and members as the traces write them; `members` are its ranks, those that are listed or else those
-- that take part. The role follows from the description by the rules of group_role(), else it is guessed from the traffic:
-- only sends and receives are pp, an all-to-all is ep, all-gathers with reduce-scatters are dp_shard, and of groups that
-- only reduce or gather those of neighboring ranks, where there are several, are tp, all others dp. `role_source` is
-- description or guessed.
create or replace macro role_groups(operations) as table
with _groups as (
    select
        run, group_name, group_description, group_size, group_ranks,
        coalesce(group_ranks, list(distinct rank order by rank)) as members,
        count(*) as kernels,
        count(distinct rank) as ranks,
        coalesce(sum(size_bytes), 0) as size_bytes,
        list(distinct collective order by collective) as kinds
    from query_table(operations)
    group by run, group_name, group_description, group_size, group_ranks
),
_counted as (
    select
        *,
        count(*) over (partition by run) as groups,
        list_max(members) - list_min(members) + 1 = len(members) as is_dense
    from _groups
),
_guessed as (
    select
        *,
        group_role(group_description) as described,
        case
            when kinds = ['send_recv'] then 'pp'
            when list_contains(kinds, 'all_to_all') then 'ep'
            when list_has_all(kinds, ['all_gather', 'reduce_scatter']) then 'dp_shard'
            when is_dense and groups > 1 and len(members) > 1 and len(members) < max(len(members)) over (partition by run) then 'tp'
            else 'dp'
        end as guess
    from _counted
)
select
    run, group_name, group_description, group_size, group_ranks, members, kernels, ranks, size_bytes, kinds,
    coalesce(described, guess) as role,
    case when described is null then 'guessed' else 'description' end as role_source
from _guessed;

-- with_role(operations, groups): the rows of collective_kernels() with role and role_source of their group of role_groups().
create or replace macro with_role(operations, groups) as table
select o.*, g.role, g.role_source
from query_table(operations) as o
join hint_small(groups) as g
    on o.run = g.run and o.group_name is not distinct from g.group_name
    and o.group_description is not distinct from g.group_description
    and o.group_size is not distinct from g.group_size and o.group_ranks is not distinct from g.group_ranks;

-- within(points, rows): which points (run, source, pid, tid, id, at_ns) lie in any row (run, source, pid, tid, start_ns,
-- end_ns) of their thread. Threads are numbered, and their rows merged: a point is compared with few, by numbers alone.
create or replace macro within(points, rows) as table
with _threads as materialized (
    select (row_number() over ())::integer as lane, run, source, pid, tid
    from (select distinct run, source, pid, tid from query_table(points) where pid is not null and tid is not null)
),
_rows as (
    select t.lane, r.start_ns, r.end_ns
    from query_table(rows) as r
    join hint_small('_threads') as t on r.run = t.run and r.source = t.source and r.pid = t.pid and r.tid = t.tid
    where has_valid_interval(r.start_ns, r.end_ns)
),
_points as (
    select p.id, t.lane, p.at_ns
    from query_table(points) as p
    join hint_small('_threads') as t on p.run = t.run and p.source = t.source and p.pid = t.pid and p.tid = t.tid
)
select p.id
from _points as p
asof join merged('_rows') as r on p.lane = r.lane and p.at_ns >= r.start_ns
where r.end_ns > p.at_ns;
