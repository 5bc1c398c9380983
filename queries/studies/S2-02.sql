-- The complexities that the study estimates are the order of the numbers of parameters, not of the operations: a
-- convolution uses each of its weights once for every place of the picture.
-- /// study
-- title = "Estimated complexity"
-- study = "an estimate"
-- corrected = "FLOPs of all layers, a multiply-add as two"
-- fits = "flop_per_sample is not null and model in ('alexnet', 'resnet18') and image_size = 224"
-- alone = true
-- capture = "tracelab collect sweep S2"
-- chart = { x = "model", log = true }
-- ///
select
    p.quantity,
    p.model,
    'study' as setting,
    p.unit,
    p.value as published,
    p.value as study,
    case p.quantity when 'parameters' then m.parameters else m.flop end as corrected,
    p.claim,
    p.place
from published as p
join models as m using (model)
union all by name
select
    'FLOPs of an image' as quantity,
    r.model,
    r.image_size || ' pixels, run ' || r.run as setting,
    'flop' as unit,
    p.value as published,
    p.value as study,
    r.flop_per_sample as corrected
from fitting as r
join published as p on r.model = p.model and p.quantity = 'FLOPs of an image'
order by all;

select
    string_agg(printf('%s: %.0f times more FLOPs than estimated', model, corrected / study), '; ' order by model)
    || printf('; the parameters are right within %.1f %%.',
        (select 100 * max(abs(study / corrected - 1)) from cells where quantity = 'parameters')) as verdict
from cells
where quantity = 'FLOPs of an image' and setting = 'study'
