-- Under DataParallel a step sees the same samples whatever the number of GPUs, so the accuracy stays; the batch size
-- changes the number of steps. One figure for each cell is no repetition: how far chance strays is told beside it.
-- /// study
-- title = "Accuracy by GPUs and batch size"
-- study = "accuracy at the end"
-- corrected = "best accuracy"
-- fits = "steps and sweep is not null and batch_size is not null and run in (select run from steps where accuracy is not null)"
-- capture = "tracelab collect sweep S4 --fixed data=cifar10 --fixed data_root=DIR"
-- example = ["smoke", "generated/sweeps/generated-training"]
-- chart = { x = "batch_size", by = "setting" }
-- [answers]
-- accuracies = { query = "training_convergence" }
-- ///
select 'accuracy' as quantity, q.run, q.model, f.gpu as machine, q.batch_size, f.gpus, concat_ws(', ', q.layout, nullif(q.variant, '')) as setting, 'ratio' as unit, q.last_accuracy as study, q.best_accuracy as corrected,
    printf('after %d epoch(s), on %s', q.epochs, q.measured_on) as claim
from accuracies as q join fitting as f using (run)
where q.best_accuracy is not null
order by q.model, q.batch_size, f.gpus, q.run;

with by_gpus as (
    select batch_size, max(study) - min(study) as span from cells group by model, batch_size, setting in (select setting from cells) having count(distinct gpus) > 1
),
by_batch as (
    select gpus, max(study) - min(study) as span from cells group by model, gpus having count(distinct batch_size) > 1
)
select
    printf('%d cells have an accuracy; ', (select count(*) from cells))
    || coalesce((select printf('at one batch size it differs by up to %.3g points between GPUs, ', 100 * max(span)) from by_gpus having count(*) > 0), '')
    || coalesce((select printf('on one number of GPUs by up to %.3g points between batch sizes', 100 * max(span)) from by_batch having count(*) > 0), 'no two batch sizes are at hand') || '.' as verdict
