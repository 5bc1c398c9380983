-- Untrained networks that reach 10 % on ten classes after 100 epochs, or 9 % on a hundred, have learned nothing or
-- little; an average of five models hides which.
-- /// study
-- title = "Accuracy after 100 epochs"
-- study = "mean accuracy of five models"
-- corrected = "accuracy / that of guessing"
-- fits = "steps and epochs > 1 and run in (select run from steps where accuracy is not null)"
-- alone = true
-- capture = "tracelab collect sweep S1 --fixed data_root=DIR"
-- example = ["generated/sweeps/generated-training", "smoke"]
-- chart = { x = "setting", by = "machine" }
-- [answers]
-- accuracies = { query = "training_convergence" }
-- ///
select
    'accuracy' as quantity,
    null as run,
    null as model,
    p.machine,
    p.gpus,
    p.setting,
    'ratio' as unit,
    p.value as published,
    p.value as study,
    null::double as corrected,
    p.claim,
    p.place
from published as p
union all by name
select
    'times that of guessing' as quantity,
    p.machine,
    p.gpus,
    p.setting,
    'x' as unit,
    p.value / case when starts_with(p.setting, 'cifar100') then 0.01 else 0.1 end as corrected,
    p.place
from published as p
union all by name
select
    'accuracy' as quantity,
    a.run,
    a.model,
    f.gpu as machine,
    f.gpus,
    concat_ws(' ', f.dataset, case when f.pretrained then 'pretrained' else 'untrained' end) as setting,
    'ratio' as unit,
    a.last_accuracy as study,
    printf('after %d epochs', a.epochs) as claim
from accuracies as a join fitting as f using (run) where a.last_accuracy is not null
order by all;

select
    (
        select string_agg(printf('%s on %s: %.3g times guessing', setting, machine, corrected), '; ' order by corrected)
        from (from cells where unit = 'x' order by corrected limit 2)
    )
    || coalesce((
        select printf('; %d runs at hand have an accuracy', count(*))
        from cells where run is not null having count(*) > 0
    ), '') || '.' as verdict
