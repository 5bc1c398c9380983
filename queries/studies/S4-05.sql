-- A cell that was planned and never ran has the status not_run in the sweep; it is not a missing point.
-- /// study
-- title = "Runs on three GPUs"
-- study = "none"
-- corrected = "cells with three GPUs, by status"
-- fits = "sweep is not null and batch_size is not null"
-- capture = "tracelab collect sweep S4 --match '*-g3-*'"
-- example = ["generated/sweeps/generated-scaling", "smoke"]
-- [answers]
-- coverage = { query = "sweep_coverage" }
-- ///
select
    'cells on 3 GPUs' as quantity,
    c.sweep as setting,
    'count' as unit,
    any_value(p.value) as published,
    count(*) filter (c.gpus = 3 and c.status = 'ok') as study,
    count(*) filter (c.gpus = 3) as corrected,
    nullif(string_agg(c.run || ': ' || c.status, ', ' order by c.run) filter (c.gpus = 3), '') as claim,
    any_value(p.place) as place
from coverage as c
left join published as p on true
group by c.sweep
order by c.sweep;

select case
    when sum(corrected) = 0 then printf('No cell at hand has three GPUs, of %d sweep(s).', count(*))
    else printf('%d of %d cells on three GPUs ended well.', sum(study)::bigint, sum(corrected)::bigint)
end as verdict
from cells
