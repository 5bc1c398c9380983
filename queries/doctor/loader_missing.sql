-- Steps without a record of how long they waited for data.
-- A row is one run and rank whose trace marks steps, without a range of PyTorch's DataLoader and without the collector's
-- measure: `wait_ns` of data_loader_wait is NULL, which does not prove that the data arrived in time.
-- /// check
-- title = "No data loader recorded"
-- severity = "info"
-- how_to_fix = "If the data came from a loader, record CPU activity with the loop over the DataLoader inside the profiler, or name another loader's ranges with --loader-name; else ignore this."
-- ///
with marked as (
    select run, rank, count(*) as steps
    from steps_of('annotations', '(?i)^(profiler)?step\s*#?\s*\d+$')
    group by run, rank
),
loaders as (
    select distinct run, rank from annotations where scope = 'cpu' and starts_with(name, 'enumerate(DataLoader)#')
    union
    select distinct run, rank from ops where starts_with(name, 'enumerate(DataLoader)#')
    union
    select distinct run, rank from steps where data_wait_ns is not null
)
select
    run,
    rank,
    steps as count,
    format('{} and no range of a data loader.', count_phrase(steps, 'step', 'steps')) as message
from marked
anti join loaders using (run, rank)
order by run, rank
