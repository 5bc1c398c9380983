-- run_notes: how a recording differs from what was requested. A row is one run and note, with the ranks that have it; NULL:
-- the note is about the run.
create or replace view run_notes as
with _tags as (
    select run, world_size, entry.key as name, entry.value as note
    from (select run, world_size, unnest(map_entries(tags)) as entry from runs)
),
_noted as (
    select run, world_size, note, try_cast(regexp_extract(name, '^ranks\.([0-9]+)\.note$', 1) as integer) as rank
    from _tags
    where name = 'short_epoch' or regexp_full_match(name, 'ranks\.[0-9]+\.note')
)
select
    run,
    note,
    list(rank order by rank) filter (rank is not null) as ranks,
    case
        when count(rank) between 1 and any_value(world_size) - 1
        then format(
            'rank{} {}{}: ',
            case when count(rank) > 1 then 's' else '' end,
            array_to_string(list_slice(list(rank order by rank), 1, 3), ', '),
            case when count(rank) > 3 then ', …' else '' end
        )
        else ''
    end || rtrim(note, '. ') as sentence
from _noted
group by run, note;
comment on view run_notes is 'how a recording differs from what was requested, in one run and as one note of some ranks';
