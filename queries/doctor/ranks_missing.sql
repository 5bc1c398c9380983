-- Jobs without all their ranks in the store.
-- A row is one run whose description names more processes than there are ranks with rows.
-- /// check
-- title = "Ranks missing"
-- severity = "info"
-- how_to_fix = "Ingest the other ranks' files into the same run (--run) to compare ranks."
-- ///
with present as (
    select run, count(distinct rank) as ranks from recordings group by run
)
select
    run,
    null::integer as rank,
    world_size - ranks as count,
    format(
        'The job had {} ranks, and {} in the store.',
        world_size, case ranks when 1 then '1 is' else format('{} are', ranks) end
    ) as message
from runs
join present using (run)
where world_size > ranks
order by run
