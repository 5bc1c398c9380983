-- One file that is stored in several runs.
-- A row is one run and source whose content is in another run as well: sums over the runs count it once per run.
-- /// check
-- title = "One file in several runs"
-- severity = "warning"
-- how_to_fix = "Make a new store and ingest each file once."
-- ///
with copies as (
    select sha256, list(distinct run order by run) as runs
    from sources
    where sha256 is not null
    group by sha256
    having count(distinct run) > 1
)
select
    run,
    null::integer as rank,
    len(runs) as count,
    format(
        '{} is also in {}{}.',
        parse_filename(path),
        array_to_string(list_filter(runs, lambda other: other <> run)[:3], ', '),
        case when len(runs) > 4 then format(' and {:,} runs more', len(runs) - 4) else '' end
    ) as message
from sources
join copies using (sha256)
order by run, path
