-- Under DataParallel a step sees the same samples for every number of GPUs, so the accuracy stays; the batch size
-- changes the number of steps. One figure for each cell is no repetition: the verdict lists the spread of repeats too.
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
select
    'accuracy' as quantity,
    q.run,
    q.model,
    f.gpu as machine,
    q.batch_size,
    f.gpus,
    concat_ws(', ', q.layout, nullif(q.variant, '')) as setting,
    'ratio' as unit,
    q.last_accuracy as study,
    q.best_accuracy as corrected,
    printf('after %d epoch(s), on %s', q.epochs, q.measured_on) as claim
from accuracies as q join fitting as f using (run)
where q.best_accuracy is not null
order by q.model, q.batch_size, f.gpus, q.run;

with alike as (  -- processes that each take a batch of their own see more samples a step; accuracy compares after as many epochs
    select f.* replace (coalesce(f.global_batch_size,
        f.batch_size * case when f.parallelism in ('ddp', 'fsdp') then f.world_size else 1 end) as batch_size,
        coalesce(f.model, 'one model') || ' ' || c.claim as model)
    from fitting as f join cells as c using (run)
),
by_gpus as (
    select l.line, l.point, avg(c.study) as study
    from cells as c join lines_along('alike', 'gpus') as l using (run) group by all
),
by_batch as (
    select l.line, l.point, avg(c.study) as study, max(c.study) - min(c.study) as strayed, count(*) as runs
    from cells as c join lines_along('alike', 'batch_size') as l using (run) group by all
),
spans as (
    select 'gpus' as axis, max(study) - min(study) as span from by_gpus group by line having count(*) > 1
    union all by name
    select 'batch' as axis, max(study) - min(study) as span from by_batch group by line having count(*) > 1
    union all by name
    select 'repeats' as axis, strayed as span from by_batch where runs > 1
)
select
    printf('%d run%s %s an accuracy; ', (select count(*) from cells),
        case (select count(*) from cells) when 1 then '' else 's' end,
        case (select count(*) from cells) when 1 then 'has' else 'have' end)
    || coalesce(printf('between cells that differ in GPUs alone it differs by up to %.3g points',
        round(100 * max(span) filter (axis = 'gpus'), 9)), 'no two cells differ in GPUs alone')
    || coalesce(printf(', between cells that differ in the batch size alone by up to %.3g points',
        round(100 * max(span) filter (axis = 'batch'), 9)), ', no two in the batch size alone')
    || coalesce(printf(', between repeats of one cell by up to %.3g points',
        round(100 * max(span) filter (axis = 'repeats'), 9)), ', and no cell is repeated') || '.' as verdict
from spans
