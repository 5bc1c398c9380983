-- Learning rates are compared with one optimizer, and optimizers at one learning rate, by the accuracy of cells that
-- are alike otherwise; one epoch favors a fast start. A rate that suits SGD may not suit Adam.
-- /// study
-- title = "Learning rates and optimizers"
-- study = "accuracy after one epoch"
-- corrected = "best accuracy of paired cells"
-- fits = """steps and run in (
--     select unnest([base_run, run]) from paired_cells('cell_speeds', 'learning_rate', null, null)
--     union all
--     select unnest([base_run, run]) from paired_cells('cell_speeds', 'optimizer', null, null)
-- )"""
-- alone = true
-- capture = "tracelab collect sweep S1"
-- example = ["generated/sweeps/generated-training", "smoke/S1-smoke"]
-- chart = { x = "setting", by = "model" }
-- [answers]
-- rates = { query = "setting_effect", setting = "learning_rate" }
-- optimizers = { query = "setting_effect", setting = "optimizer" }
-- ///
with effects as (
    select e.*, concat_ws(', ', f.optimizer, 'rate ' || e.base_value || ' → ' || e.value) as compared
    from rates as e join fitting as f on e.this_run = f.run
    union all by name
    select e.*, concat_ws(', ', 'rate ' || f.learning_rate, e.base_value || ' → ' || e.value) as compared
    from optimizers as e join fitting as f on e.this_run = f.run
),
pairs as (
    select e.*, f.gpu as machine, f.gpus from effects as e join fitting as f on e.this_run = f.run
)
select
    p.quantity,
    null as run,
    p.model,
    null as machine,
    p.batch_size,
    p.gpus,
    p.setting,
    p.unit,
    p.value as published,
    null::double as study,
    null::double as corrected,
    p.claim,
    p.place
from published as p
union all by name
select
    'time ratio' as quantity,
    e.this_run as run,
    e.model,
    e.machine,
    e.batch_size,
    e.gpus,
    e.compared as setting,
    'x' as unit,
    1 / nullif(e.step_factor, 0) as study,
    e.layout as claim
from pairs as e where e.step_factor is not null
union all by name
select
    'best accuracy' as quantity,
    e.this_run as run,
    e.model,
    e.machine,
    e.batch_size,
    e.gpus,
    e.compared as setting,
    'ratio' as unit,
    e.base_best_accuracy as study,
    e.best_accuracy as corrected,
    e.layout || '; study: the cell compared with' as claim
from pairs as e where e.best_accuracy is not null
order by all;

select
    coalesce(
        (
            select join_list(list(
                printf('%s: %.3g %% against %.3g %%', concat_ws(', ', model, setting), 100 * corrected, 100 * study)
                order by model, setting, run))
            from cells where quantity = 'best accuracy'
        ),
        'No pair of cells that differ in the learning rate alone, or in the optimizer alone, is at hand'
    ) || '.' as verdict
