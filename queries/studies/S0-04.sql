-- Calls fall with the batch size and with the GPUs because iterations do: an epoch has fewer of them. Of one iteration
-- their number hardly changes.
-- /// study
-- title = "Number of calls"
-- study = "calls of ops of an epoch"
-- corrected = "calls of ops of a step"
-- fits = "ops and sweep is not null and batch_size is not null"
-- capture = "tracelab collect sweep S0"
-- example = ["generated/sweeps/generated-scaling", "smoke"]
-- chart = { kind = "line", x = "batch_size", by = "setting" }
-- [answers]
-- calls = { query = "sweep_calls" }
-- ///
select 'calls of ops' as quantity, q.run, q.model, f.gpu as machine, q.batch_size, f.gpus, concat_ws(', ', q.layout, nullif(q.variant, '')) as setting, 'count' as unit, coalesce(q.op_calls_per_epoch, q.op_calls) as study, q.op_calls_per_step as corrected
from calls as q join fitting as f using (run)
where q.op_calls is not null
order by q.model, q.batch_size, f.gpus, q.run;

with spans as (
    select model, max(study) / min(study) as of_epoch, max(corrected) / min(corrected) as of_step from cells where study > 0 and corrected > 0 group by model
)
select string_agg(printf('%s: calls of an epoch differ %.3g times between cells, calls of a step %.3g times', coalesce(model, 'one model'), of_epoch, of_step), '; ' order by model) || '.' as verdict from spans
