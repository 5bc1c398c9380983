-- The order of the models is right, and follows from their layers; no profiler is needed to find it. What the study
-- counted orders them one way at one batch size, and another way at another: models are compared at one, on one
-- machine.
-- /// study
-- title = "Complexity of the models"
-- study = "order by counted double-precision operations"
-- corrected = "FLOPs of an image, forward, and parameters"
-- fits = "run in (select run from summaries where starts_with(metric, 'flop_count_'))"
-- alone = true
-- capture = "tracelab collect sweep S3"
-- example = ["generated/nvprof"]
-- chart = { x = "model", by = "setting", log = true }
-- [answers]
-- counts = { query = "sweep_flop" }
-- ///
select
    'FLOPs of an image' as quantity,
    m.model,
    p.machine,
    null::bigint as batch_size,
    null as setting,
    'flop' as unit,
    null::double as study,
    m.flop as corrected,
    p.claim,
    p.place
from published as p join models as m using (model)
union all by name
select 'parameters' as quantity, m.model, p.machine, 'count' as unit, m.parameters as corrected
from published as p join models as m using (model)
union all by name
select
    'mean count of a kernel' as quantity,
    c.model,
    f.gpu as machine,
    c.batch_size,
    concat_ws(', ', f.gpu, 'batch ' || c.batch_size) as setting,
    'flop' as unit,
    avg(c.name_mean_flop) as study
from counts as c
join fitting as f using (run) where c.counted_from = 'flop_count_dp' group by c.model, f.gpu, c.batch_size
order by all;

with ordered as (
    select string_agg(model, ' > ' order by corrected desc) as right_one, max(corrected) / min(corrected) as span
    from cells where quantity = 'FLOPs of an image'
),
equals as (
    select machine, batch_size, study, string_agg(model, ' = ' order by model) as names, count(*) as models
    from cells where quantity = 'mean count of a kernel' group by machine, batch_size, study
),
counted as (
    select printf('at batch %d%s ', batch_size, coalesce(' on ' || machine, ''))
        || string_agg(names, ' > ' order by study desc) as sentence
    from equals
    group by machine, batch_size
    having sum(models) > 1
)
select
    (select printf('%s by FLOPs, %.0f times between the ends', right_one, span) from ordered)
    || coalesce(
        (
            select '; by the study''s counter ' || join_list(list(sentence order by sentence))
            from counted having count(*) > 0
        ),
        '; no two models at hand were counted on one machine at one batch size'
    ) || '.' as verdict
