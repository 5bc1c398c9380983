-- The study claims to test every combination of three shares of the data, four batch sizes and three numbers of GPUs.
-- What it calls model parallelism is data parallelism: DistributedDataParallel copies the model to every GPU. Failed
-- cells stay in the table.
-- /// study
-- title = "Cells of the sweep"
-- study = "combinations of the settings"
-- corrected = "cells that ended well / all cells"
-- fits = "sweep like 'S0%' or sweep = 'generated-scaling'"
-- capture = "tracelab collect sweep S0"
-- example = ["generated/sweeps/generated-scaling", "smoke"]
-- chart = { answer = "coverage" }
-- [answers]
-- statuses = { query = "sweep_status" }
-- coverage = { query = "sweep_coverage" }
-- ///
select
    'cells' as quantity,
    s.sweep as setting,
    'count' as unit,
    p.value as published,
    s.runs as study,
    s.ok as corrected,
    concat_ws(', ', case when s.timeout > 0 then s.timeout || ' over the time limit' end,
        case when s.oom > 0 then s.oom || ' out of memory' end,
        case when s.failed + s.profiler > 0 then s.failed + s.profiler || ' failed' end,
        case when s.not_run > 0 then s.not_run || ' not run' end,
        case when s.missing > 0 then s.missing || ' not in the store' end) as claim,
    p.place
from statuses as s
left join published as p on true
where s.sweep in (select sweep from fitting)
order by s.sweep;

select printf('%d of %d cells ended well; the study has 36 of 36.', sum(corrected)::bigint,
    sum(study)::bigint) as verdict from cells
