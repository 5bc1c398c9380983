-- A data sheet's bandwidth cannot be reached; what can is measured on the machine, by copies and sums over arrays that
-- no cache holds.
-- /// study
-- title = "Platform"
-- study = "from the data sheet"
-- corrected = "best measured of a copy or triad over DRAM"
-- fits = "ceilings"
-- alone = true
-- capture = "tracelab collect ceilings"
-- example = ["smoke"]
-- chart = { x = "machine" }
-- ///
select
    'memory bandwidth' as quantity,
    c.run,
    c.device_name as machine,
    c.metric as setting,
    'GB/s' as unit,
    p.value as published,
    p.value as study,
    max(c.best) as corrected,
    any_value(p.place) as place
from ceilings as c
left join published as p on p.quantity = 'memory bandwidth' and contains(c.device_name, p.machine)
where c.run in (select run from fitting) and c.metric in ('dram_copy', 'dram_triad')
group by all
union all by name
select quantity, machine, 'the study' as setting, unit, value as published, value as study, place from published
order by all;

select
    coalesce(
        (
            select string_agg(
                distinct printf('%s reaches %.4g GB/s%s', machine, best, coalesce(printf(' of %.4g', spec), '')), '; ')
            from (
                select machine, max(corrected) as best, max(published) as spec
                from cells where corrected is not null group by machine
            )
        ),
        printf('No ceiling was measured; %d figures are the data sheets''', (select count(*) from cells))
    ) || '.' as verdict
