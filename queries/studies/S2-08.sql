-- What machines are called and what they have: the recorded properties of each card beside the study's table.
-- /// study
-- title = "Machines"
-- study = "as the study lists it"
-- corrected = "as the driver reports it"
-- fits = "devices"
-- alone = true
-- capture = "tracelab collect sweep S2"
-- example = ["generated/generated-4rank-ddp"]
-- ///
select
    'device memory' as quantity,
    null as run,
    d.name as machine,
    count(distinct (d.run, d.rank, d.device)) as gpus,
    'GB' as unit,
    p.value as published,
    p.value as study,
    any_value(d.memory_bytes) / 1e9 as corrected,
    p.place
from devices as d
left join published as p on p.quantity = 'device memory' and contains(d.name, p.machine)
where d.run in (select run from fitting) and d.memory_bytes is not null
group by d.name, p.value, p.place
union all by name
select quantity, machine, gpus, unit, value as published, value as study, place from published
where quantity <> 'device memory' or not exists (from devices as d where contains(d.name, published.machine)
    and d.run in (select run from fitting))
order by all;

select
    coalesce(string_agg(printf('%s has %.1f GB%s', machine, corrected,
        case when study is null then '' else printf(', sold as %.0f GB', study) end), '; '
        order by machine) filter (corrected is not null), 'No card is at hand; the table is the study''s')
    || '.' as verdict
from cells
