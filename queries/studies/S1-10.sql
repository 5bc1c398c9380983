-- When accuracy no longer changes is a matter of what counts as a change and for how long: both are parameters. That of
-- a model that guesses does not change either, and is no convergence: this row counts such runs separately.
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
-- health = { query = "training_health" }
-- ///
with chances as (  -- by accuracy, because a loss that is no number leaves the accuracy where it was
    select run, coalesce(accuracy <= chance_accuracy + 3 * standard_error,
        verdict in ('at_guessing', 'worse_than_guessing')) as is_chance from health
)
select
    'epochs until convergence' as quantity,
    null as run,
    null as model,
    null as machine,
    null as batch_size,
    'the study' as setting,
    unit,
    value as published,
    value as study,
    null::double as corrected,
    claim,
    place
from published
union all by name
select
    'epochs until convergence' as quantity,
    a.run,
    a.model,
    f.gpu as machine,
    a.batch_size,
    concat_ws(', ', a.layout, nullif(a.variant, '')) as setting,
    'count' as unit,
    a.epochs as study,
    case when is_chance then null else a.converged_epoch + 1 end as corrected,
    printf('%.3g after %d epochs%s', a.last_accuracy, a.epochs,
        case when is_chance then ', at chance' else '' end) as claim
from accuracies as a join fitting as f using (run) left join chances as c using (run)
order by all;

with counts as (
    select
        count(*) as runs,
        count(corrected) as converged,
        min(corrected) as least,
        max(corrected) as most,
        count(*) filter (ends_with(claim, 'at chance')) as guessing
    from cells where run is not null
)
select
    printf('%d of %d runs at hand converge', converged, runs)
    || coalesce(printf(', after %s epochs', format_range(least, most)), '')
    || case
        when guessing > 0 then printf('; %d stay%s at chance, which is no convergence', guessing,
            case guessing when 1 then 's' else '' end)
        else ''
    end
    || (select printf('; the study reports %.0f.', published) from cells where run is null) as verdict
from counts
