-- CPU time is a sum over ops of all threads. Total times count an op inside another twice; self times do not, but still
-- add up threads that run side by side, ranks too. What a user waits for is the time of a step.
-- /// study
-- title = "CPU time"
-- study = "self times of all ops, added up, of a step"
-- corrected = "time of a step on the clock"
-- fits = "ops and sweep is not null and batch_size is not null"
-- capture = "tracelab collect sweep S0"
-- example = ["generated/sweeps/generated-scaling", "smoke"]
-- chart = { kind = "line", x = "batch_size", by = "setting" }
-- [answers]
-- runtime = { query = "sweep_runtime" }
-- ///
select
    'CPU time of a step' as quantity,
    q.run,
    q.model,
    f.gpu as machine,
    q.batch_size,
    f.gpus,
    concat_ws(', ', q.layout, nullif(q.variant, '')) as setting,
    'ns' as unit,
    q.cpu_self_step_ns as study,
    q.step_ns as corrected
from runtime as q join fitting as f using (run)
where q.cpu_self_step_ns is not null
order by q.model, q.batch_size, f.gpus, q.run;

select printf('The sum of self times is %.2g to %.2g times the time on the clock.', min(study / corrected),
    max(study / corrected)) as verdict from cells where corrected > 0
