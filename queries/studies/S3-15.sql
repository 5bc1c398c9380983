-- The order of the models is right, and follows from their layers; no profiler is needed to tell it.
-- /// study
-- title = "Complexity of the models"
-- study = "order by counted double-precision operations"
-- corrected = "FLOPs of an image, forward, and parameters"
-- fits = "run in (select run from summaries where starts_with(metric, 'flop_count_'))"
-- alone = true
-- capture = "tracelab collect sweep S3"
-- example = ["generated/nvprof"]
-- chart = { x = "model", log = true }
-- [answers]
-- counts = { query = "sweep_flop" }
-- ///
select 'FLOPs of an image' as quantity, m.model, p.machine, 'flop' as unit, null::double as study, m.flop as corrected, p.claim, p.place
from published as p join models as m using (model)
union all
select 'parameters', m.model, p.machine, 'count', null, m.parameters, null, null from published as p join models as m using (model)
union all
select 'mean count of a kernel', c.model, f.gpu, 'flop', avg(c.name_mean_flop), null, 'over the batch sizes at hand', null
from counts as c join fitting as f using (run) where c.counted_from = 'flop_count_dp' group by c.model, f.gpu
order by all;

with ordered as (
    select string_agg(model, ' > ' order by corrected desc) as right_one, max(corrected) / min(corrected) as span from cells where quantity = 'FLOPs of an image'
),
counted as (
    select string_agg(model, ' > ' order by study desc) as by_count from cells where quantity = 'mean count of a kernel'
)
select printf('%s by FLOPs, %.0f times between the ends', right_one, span) || coalesce('; by the study''s counter ' || by_count, '') || '.' as verdict from ordered, counted
