-- Runs that ran out of memory are gaps in the study's figures. Here they stay cells with a status, and with each
-- device's peak at the failure.
-- /// study
-- title = "Out of memory"
-- study = "left out of the figures"
-- corrected = "cells by status, with the peak of a device"
-- fits = "sweep is not null and batch_size is not null"
-- capture = "tracelab collect sweep S4"
-- example = ["generated/sweeps/generated-scaling", "smoke"]
-- chart = { answer = "coverage" }
-- [answers]
-- coverage = { query = "sweep_coverage" }
-- memory = { query = "sweep_memory" }
-- ///
select
    'memory at the end' as quantity,
    c.run,
    c.model,
    c.gpu as machine,
    c.batch_size,
    c.gpus,
    concat_ws(', ', c.layout, c.status) as setting,
    'bytes' as unit,
    null::double as study,
    max(m.allocated_bytes) as corrected,
    any_value(c.error) as claim
from coverage as c
left join memory as m using (run)
group by all
order by c.model, c.batch_size, c.gpus, c.run;

select printf('%d of %d cells ran out of memory%s.', count(*) filter (contains(setting, 'oom')), count(*),
    coalesce(printf('; their devices held up to %.4g GB', max(corrected) filter (contains(setting, 'oom')) / 1e9),
        '')) as verdict
from cells
