-- A loss that stays near the logarithm of the number of classes is that of a guess. The study found by hand that its
-- layers required no gradients; a rule over the recorded loss and accuracy finds such runs.
-- /// study
-- title = "Loss that stays flat"
-- study = "seen by hand"
-- corrected = "mean loss of the last tenth of the steps, against ln(classes)"
-- fits = "steps and run in (select run from steps where loss is not null)"
-- alone = true
-- capture = "tracelab collect sweep S4"
-- example = ["generated/sweeps/generated-training", "smoke"]
-- chart = { x = "run" }
-- [answers]
-- health = { query = "training_health" }
-- ///
select
    'loss' as quantity,
    null as run,
    p.model,
    null as machine,
    null as batch_size,
    null as gpus,
    'the study' as setting,
    p.unit,
    p.value as published,
    p.value as study,
    ln(10) as corrected,
    'corrected: ln(10), a guess of ten classes' as claim,
    p.place
from published as p
union all by name
select
    'loss' as quantity,
    h.run,
    h.model,
    f.gpu as machine,
    h.batch_size,
    f.gpus,
    h.verdict as setting,
    'loss' as unit,
    h.last_loss as study,
    h.guessing_loss as corrected,
    printf('accuracy %s', coalesce(printf('%.3g', h.accuracy), 'unknown')) as claim
from health as h join fitting as f using (run)
order by all;

with judged as (
    select setting as verdict, count(*) as runs, string_agg(run, ', ' order by run) as names
    from cells where run is not null group by setting
),
words(verdict, place, what, is_named) as (
    values ('at_guessing', 1, 'with a loss of guessing', true),
        ('worse_than_guessing', 2, 'with a loss above that of guessing', true),
        ('at_chance', 3, 'with the accuracy of chance', true), ('diverges', 4, 'with a loss that rises', true),
            ('flat', 5, 'with a loss that hardly changes', false),
            ('no_loss', 6, 'with a step whose loss is no number', true),
        ('learns', 7, 'that learn', false)
),
listed as (
    select string_agg(printf('%d %s%s', runs, coalesce(what, 'with no verdict'), case when is_named then ' (' || names
        || ')' else '' end), ', ' order by place) as verdicts
    from judged left join words using (verdict)
)
select
    (
        select printf('%.3g is %.2g of the loss of guessing among ten classes', study, study / corrected)
        from cells where run is null
    )
    || coalesce((select printf('; at hand: %s', verdicts) from listed), '') || '.' as verdict
