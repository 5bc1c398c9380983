-- Workers help where the loop waits for data, and only there. How long it waits is recorded with every step.
-- /// study
-- title = "Loader workers"
-- study = "time by number of workers"
-- corrected = "share of the steps' time that waits for the loader"
-- fits = "steps and status = 'ok' and sweep in (select sweep from runs group by sweep having count(distinct workers) > 1)"
-- alone = true
-- capture = "tracelab collect sweep S1"
-- example = ["generated/sweeps/generated-settings", "smoke"]
-- chart = { x = "model", by = "quantity" }
-- [answers]
-- effects = { query = "setting_effect", setting = "workers" }
-- ///
select p.quantity, null as run, p.model, null as machine, p.batch_size, p.gpus, p.setting, p.unit, p.value as published, null::double as study, null::double as corrected, p.claim, p.place from published as p
union all
select 'time with fewer / with more workers', e.this_run, e.model, f.gpu, e.batch_size, f.gpus, concat_ws(', ', e.layout, e.setting || ': ' || e.base_value || ' → ' || e.value), 'x', null, 1 / nullif(e.step_factor, 0), null, null, null
from effects as e join fitting as f on e.this_run = f.run where e.step_factor is not null
union all
select 'waiting for data', e.this_run, e.model, f.gpu, e.batch_size, f.gpus, concat_ws(', ', e.layout, e.setting || ': ' || e.base_value || ' → ' || e.value), 'ratio', null, e.base_data_wait_ratio, e.data_wait_ratio, 'study: fewer workers', null
from effects as e join fitting as f on e.this_run = f.run where e.data_wait_ratio is not null
order by all;

select
    coalesce((select printf('Waiting for data takes %.3g %% of the steps'' time with fewer and %.3g %% with more workers', 100 * avg(study), 100 * avg(corrected)) from cells where quantity = 'waiting for data' having count(*) > 0), 'No pair of cells that differ in workers alone is at hand; where no effect is seen, nothing waited for data or something else did') || '.' as verdict
