-- Thirty cells, of which several ended with a time limit, with an error of the profiler, or with nothing recorded. A
-- failure is a result: it stays in the table with its status.
-- /// study
-- title = "Cells of the sweep"
-- study = "cells whose log has figures"
-- corrected = "cells by status"
-- fits = "sweep like 'S3%' or sweep in ('generated-nvprof', 'generated-shares')"
-- capture = "tracelab collect sweep S3"
-- example = ["generated/nvprof", "generated/sweeps/generated-shares", "smoke"]
-- chart = { x = "setting" }
-- [answers]
-- statuses = { query = "sweep_status" }
-- ///
select
    'cells' as quantity,
    s.sweep as setting,
    'count' as unit,
    p.value as published,
    s.ok as study,
    s.runs as corrected,
    concat_ws(', ', case when s.timeout > 0 then s.timeout || ' over the time limit' end,
        case when s.oom > 0 then s.oom || ' out of memory' end, case when s.failed > 0 then s.failed || ' failed' end,
        case when s.profiler > 0 then s.profiler || ' without a recording' end,
        case when s.not_run > 0 then s.not_run || ' not run' end) as claim,
    p.place
from statuses as s
left join published as p on true
where s.sweep in (select sweep from fitting)
order by s.sweep;

select printf('%d of %d cells ended well; the others are kept with their status.', sum(study)::bigint,
    sum(corrected)::bigint) as verdict from cells
