-- Process groups of a job: their members, their roles, and what they carry.
-- A row is one run and process group. Its role follows from its description by the rules of group_roles.csv (a file of that
-- name in the store comes first), else it is guessed from the traffic: only sends and receives: pp; all_to_all: ep;
-- all_gather and reduce_scatter: dp_shard; neighboring ranks, where there are larger groups: tp; all others: dp.
-- With a rank, only groups of which it is a member.
-- /// query
-- title = "Process groups"
-- needs = ["kernels", "annotations"]
-- subject = "communication"
-- show = ["run", "group_name", "group_description", "role", "group_size", "members", "kernels", "size_bytes"]
-- [params]
-- common = ["run"]
-- rank = { type = "integer", about = "only this rank" }
-- [columns]
-- run = "common"
-- group_name = "Name of the group; NULL where the source has none."
-- group_description = "What the framework calls it."
-- role = "world, tp, pp, dp, dp_shard, dp_replicate, cp, ep, embedding, optimizer, or several at once: tp_dp …"
-- role_source = "description or guessed."
-- group_size = "Ranks of the group; of those found where it is not known."
-- members = "Ranks of the group, or those found where they are not known."
-- stride = "Distance between neighboring members; NULL where it varies."
-- kinds = "Kinds of its collectives."
-- kernels = "Its communication kernels."
-- size_bytes = "Their sizes, added up."
-- ///
with communication as not materialized (
    from communication_kernels where in_scope and matches(run, $run)
),
carried as (
    from role_groups('communication')
),
groups as (  -- members and roles are those of the recording
    select g.* replace (c.kernels as kernels, c.size_bytes as size_bytes, c.kinds as kinds)
    from role_groups('communication_kernels') as g
    join carried as c
        on g.run = c.run and g.group_name is not distinct from c.group_name
        and g.group_description is not distinct from c.group_description
        and g.group_size is not distinct from c.group_size and g.group_ranks is not distinct from c.group_ranks
),
strides as (
    select
        *,
        list_distinct([members[place + 1] - members[place] for place in range(1, len(members))]) as steps
    from groups
)
select
    run, group_name, group_description, role, role_source,
    coalesce(group_size, len(members))::bigint as group_size,
    array_to_string(members, ',') as members,
    case when len(steps) = 1 then steps[1]::bigint end as stride,
    array_to_string(kinds, ',') as kinds,
    kernels,
    as_bigint(size_bytes) as size_bytes
from strides
where $rank is null or list_contains(members, $rank)
order by run, role, members, group_name, group_description
