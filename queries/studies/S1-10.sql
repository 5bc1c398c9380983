-- When accuracy no longer changes is a matter of what counts as a change and for how long: both are parameters.
-- /// study
-- title = "Convergence"
-- study = "by trying numbers of epochs"
-- corrected = "first epoch after which three changes in a row are below half a point"
-- fits = "steps and epochs > 1 and run in (select run from steps where accuracy is not null)"
-- capture = "tracelab collect sweep S1 --fixed data_root=DIR"
-- example = ["generated/sweeps/generated-training", "smoke"]
-- chart = { answer = "epochs" }
-- [answers]
-- accuracies = { query = "training_convergence" }
-- epochs = { query = "training_accuracy" }
-- ///
select 'epochs until convergence' as quantity, null as run, null as model, null as machine, null as batch_size, 'the study' as setting, unit, value as published, value as study, null::double as corrected, claim, place from published
union all
select 'epochs until convergence', a.run, a.model, f.gpu, a.batch_size, concat_ws(', ', a.layout, nullif(a.variant, '')), 'count', null, a.epochs, a.converged_epoch, printf('%.3g after %d epochs', a.last_accuracy, a.epochs), null
from accuracies as a join fitting as f using (run)
order by all;

select
    printf('%d of %d runs at hand converge', count(*) filter (corrected is not null), count(*)) || coalesce(printf(', after %d to %d epochs', min(corrected)::bigint, max(corrected)::bigint), '') || '; the study says 100.' as verdict
from cells where run is not null
