-- There is a batch size with the best accuracy after a fixed number of epochs, and another with the least time. 3 minutes
-- for 14 epochs do not go with 5.3 minutes for one (table I): another network or resolution must have been measured.
-- /// study
-- title = "Batch size"
-- study = "accuracy and time by batch size"
-- corrected = "time of an epoch by batch size, and best accuracy"
-- fits = "steps and status = 'ok' and sweep is not null and batch_size is not null"
-- alone = true
-- capture = "tracelab collect sweep S1"
-- example = ["generated/sweeps/generated-scaling", "generated/sweeps/generated-training", "smoke"]
-- chart = { kind = "line", x = "batch_size", by = "setting" }
-- [answers]
-- speed = { query = "sweep_throughput" }
-- accuracies = { query = "training_convergence" }
-- ///
select p.quantity, null as run, p.model, null as machine, p.batch_size, p.gpus, p.setting, p.unit, p.value as published, null::double as study, null::double as corrected, p.claim, p.place from published as p
union all
select 'time of one epoch, of 14 in 3 min', null, null, null, 128, 1, null, 'min', null, any_value(value) / 14, null, null, null from published where quantity = 'time of 14 epochs'
union all
select 'samples a second', q.run, q.model, f.gpu, q.batch_size, f.gpus, concat_ws(', ', q.layout, nullif(q.variant, '')), 'samples/s', null, null, q.samples_per_s, null, null
from speed as q join fitting as f using (run) where q.samples_per_s is not null
union all
select 'best accuracy', a.run, a.model, f.gpu, a.batch_size, f.gpus, concat_ws(', ', a.layout, nullif(a.variant, '')), 'ratio', null, null, a.best_accuracy, null, null
from accuracies as a join fitting as f using (run) where a.best_accuracy is not null
order by all;

select
    printf('3 min for 14 epochs are %.2g min an epoch, %.0f times less than table I''s 5.3', (select max(study) from cells), 5.3 / (select max(study) from cells))
    || coalesce((select printf('; at hand batch %d is the fastest with %.4g samples/s', arg_max(batch_size, corrected), max(corrected)) from cells where unit = 'samples/s' having count(*) > 0), '')
    || coalesce((select printf(', batch %d the most accurate with %.3g %%', arg_max(batch_size, corrected), 100 * max(corrected)) from cells where quantity = 'best accuracy' and run is not null having count(*) > 0), '') || '.' as verdict
