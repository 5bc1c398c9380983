-- Learning rates and optimizers are compared by the accuracy that they reach, in cells that differ in nothing else; one
-- epoch favours the one that begins fast.
-- /// study
-- title = "Learning rates and optimizers"
-- study = "accuracy after one epoch"
-- corrected = "best accuracy of paired cells"
-- fits = "steps and status = 'ok' and sweep in (select sweep from runs group by sweep having count(distinct learning_rate) > 1)"
-- alone = true
-- capture = "tracelab collect sweep S1"
-- example = ["generated/sweeps/generated-training", "smoke"]
-- chart = { x = "model", by = "quantity" }
-- [answers]
-- effects = { query = "setting_effect", setting = "learning_rate", ignore = "optimizer" }
-- ///
select p.quantity, null as run, p.model, null as machine, p.batch_size, p.gpus, p.setting, p.unit, p.value as published, null::double as study, null::double as corrected, p.claim, p.place from published as p
union all
select 'time ratio', e.this_run, e.model, f.gpu, e.batch_size, f.gpus, concat_ws(', ', e.layout, e.setting || ': ' || e.base_value || ' → ' || e.value), 'x', null, 1 / nullif(e.step_factor, 0), null, null, null
from effects as e join fitting as f on e.this_run = f.run where e.step_factor is not null
union all
select 'best accuracy', e.this_run, e.model, f.gpu, e.batch_size, f.gpus, concat_ws(', ', e.layout, e.setting || ': ' || e.base_value || ' → ' || e.value), 'ratio', null, e.base_best_accuracy, e.best_accuracy, 'study: the cell compared with', null
from effects as e join fitting as f on e.this_run = f.run where e.best_accuracy is not null
order by all;

select
    coalesce((select string_agg(printf('%s: %.3g %% against %.3g %%', setting, 100 * corrected, 100 * study), '; ' order by setting) from cells where quantity = 'best accuracy' having count(*) > 0),
        'No pair of cells that differ in the learning rate and the optimizer alone is at hand') || '.' as verdict
