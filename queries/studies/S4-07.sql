-- The study claims that more than three GPUs slow training down, but no run had more than two. This row compares
-- DataParallel and DistributedDataParallel: the former's costs grow with the GPUs and the latter's hardly do.
-- /// study
-- title = "More than three GPUs"
-- study = "claimed, not measured"
-- corrected = "speed-up by GPUs, DataParallel and DDP"
-- fits = "steps and status = 'ok' and sweep is not null and batch_size is not null"
-- capture = "tracelab collect sweep S4"
-- example = ["generated/sweeps/generated-scaling", "smoke"]
-- chart = { kind = "line", x = "gpus", by = "setting" }
-- [answers]
-- scaling = { query = "sweep_scaling" }
-- ///
select
    p.quantity,
    null as run,
    p.model,
    null as machine,
    null as batch_size,
    p.gpus,
    'the study' as setting,
    p.unit,
    p.value as published,
    null::double as study,
    null::double as corrected,
    p.claim,
    p.place
from published as p
union all by name
select
    'speed-up' as quantity,
    s.run,
    s.model,
    f.gpu as machine,
    s.batch_size,
    s.processors as gpus,
    s.parallelism as setting,
    'x' as unit,
    s.speedup_factor as corrected,
    s.scaling as claim
from scaling as s join fitting as f using (run) where s.base_run <> s.run and s.speedup_factor is not null
order by all;

with ends as (
    select
        setting,
        max(gpus) as most,
        max(corrected) filter (gpus > 3) as beyond,
        min(corrected) as least,
        max(corrected) as best
    from cells where run is not null group by setting
)
select coalesce(string_agg(printf('%s: speed-up %.3g to %.3g on up to %d processors', setting, least, best, most), '; '
    order by setting), 'No two numbers of GPUs are at hand')
    || case when bool_or(beyond is not null) then '' else '; none has more than three GPUs, so the claim stays open' end
        || '.' as verdict
from ends
