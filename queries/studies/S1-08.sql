-- Faster by 40 percent is held against the study's own tables: the ratio of mean times, the mean of ratios, and the
-- time saved. Means over models show little where the slow machine takes as long for a small network as for a large
-- one.
-- /// study
-- title = "The faster machine"
-- study = "faster by 40 % on average"
-- corrected = "time on the slower / time on the faster machine, from tables I to IV"
-- fits = "steps and status = 'ok' and gpu is not null and sweep is not null"
-- alone = true
-- capture = "tracelab collect sweep S1 --fixed data_root=DIR"
-- example = ["generated/sweeps/generated-machines"]
-- chart = { x = "model", by = "setting" }
-- [answers]
-- compared = { query = "machine_comparison" }
-- ///
with pairs as (
    select s.setting, s.model, s.value as slow, f.value as fast
    from figures as s
    join figures as f on s.setting = f.setting and s.model = f.model and s.quantity = f.quantity
    where s.quantity = 'time of an epoch' and s.row in ('S1-04', 'S1-06') and f.row in ('S1-05', 'S1-07')
),
at_hand as (
    select * from compared where base_run in (select run from fitting) and this_run in (select run from fitting)
)
select
    'speed-up' as quantity,
    null as run,
    model,
    null as machine,
    setting,
    'x' as unit,
    null::double as published,
    null::double as study,
    slow / fast as corrected,
    printf('%.1f / %.1f min', slow, fast) as claim,
    'tables I to IV' as place
from pairs
union all by name
select
    'ratio of means' as quantity,
    pairs.setting,
    'x' as unit,
    p.value as published,
    p.value as study,
    sum(slow) / sum(fast) as corrected,
    p.claim,
    p.place
from pairs, published as p group by pairs.setting, p.value, p.claim, p.place
union all by name
select
    'mean of ratios' as quantity,
    pairs.setting,
    'x' as unit,
    p.value as published,
    p.value as study,
    avg(slow / fast) as corrected,
    p.claim,
    p.place
from pairs, published as p group by pairs.setting, p.value, p.claim, p.place
union all by name
select
    'time saved' as quantity,
    setting,
    'ratio' as unit,
    1 - sum(fast) / sum(slow) as corrected,
    'tables I to IV' as place
from pairs group by setting
union all by name
select
    'speed-up, at hand' as quantity,
    c.model,
    c.machine,
    concat_ws(', ', c.dataset, 'by ' || c.compared, 'against ' || c.base_machine) as setting,
    'x' as unit,
    c.speedup_factor as corrected
from at_hand as c
union all by name
select distinct
    'ratio of means, at hand' as quantity,
    c.machine,
    concat_ws(', ', c.dataset, 'by ' || c.compared, 'against ' || c.base_machine) as setting,
    'x' as unit,
    c.ratio_of_means_factor as corrected
from at_hand as c
order by all;

with averages as (
    select any_value(published) as claimed, min(corrected) as least, max(corrected) as most
    from cells where quantity in ('ratio of means', 'mean of ratios')
),
listed_pairs as (
    select count(*) as pairs, count(*) filter (corrected >= claimed) as holding
    from cells, averages where quantity = 'speed-up'
),
pairs_at_hand as (
    select count(*) as pairs, count(*) filter (corrected >= claimed) as holding
    from cells, averages where quantity = 'speed-up, at hand'
),
means_at_hand as (
    select printf('%s, %s, is %.4g times as fast', machine, setting, corrected) as factor
    from cells where quantity = 'ratio of means, at hand'
)
select
    (
        select printf('The study''s tables give %.3f and %.3f times (ratio of means) or %.3f and %.3f (mean of ratios): %.0f %% to %.0f %% less time, ',
            min(corrected) filter (quantity = 'ratio of means'), max(corrected) filter (quantity = 'ratio of means'),
            min(corrected) filter (quantity = 'mean of ratios'), max(corrected) filter (quantity = 'mean of ratios'),
            100 * min(corrected) filter (quantity = 'time saved'),
            100 * max(corrected) filter (quantity = 'time saved'))
        from cells
    )
    || (
        select
            printf(
                case
                    when most < claimed then 'not %.0f %% faster'
                    when least >= claimed then '%.0f %% faster and more'
                    else '%.0f %% faster by some of these averages alone'
                end, 100 * (claimed - 1))
            || printf('; %.3g times and more holds for %d of %d pairs', claimed, holding, pairs)
        from averages, listed_pairs
    )
    || coalesce((
        select
            '; at hand '
            || join_list(list(factor order by factor))
            || printf(', and it holds for %d of %d pairs', any_value(holding), any_value(pairs))
        from means_at_hand, pairs_at_hand having count(*) > 0
    ), '') || '.' as verdict
