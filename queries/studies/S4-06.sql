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
select 'loss' as quantity, null as run, p.model, null as machine, null as batch_size, null as gpus, 'the study' as setting, p.unit, p.value as published, p.value as study, ln(10) as corrected, 'corrected: ln(10), a guess of ten classes' as claim, p.place
from published as p
union all
select 'loss', h.run, h.model, f.gpu, h.batch_size, f.gpus, h.verdict, 'loss', null, h.last_loss, h.guessing_loss, printf('accuracy %s', coalesce(printf('%.3g', h.accuracy), 'not told')), null
from health as h join fitting as f using (run)
order by all;

select
    printf('2.1 is %.2g of the loss of guessing among ten classes', (select study / corrected from cells where run is null))
    || coalesce((select printf('; of %d runs at hand %d guess%s', count(*), count(*) filter (setting in ('at_guessing', 'at_chance', 'diverges')),
        coalesce(' (' || string_agg(run || ': ' || setting, ', ' order by run) filter (setting in ('at_guessing', 'at_chance', 'diverges')) || ')', ''))
        || printf(', the loss of %d hardly changes', count(*) filter (setting = 'flat')) from cells where run is not null having count(*) > 0), '') || '.' as verdict
