-- The study has pinned memory switched off cost 40 % of the time on average, and 60 % for VGG16-BN, and calls it PyTorch's
-- default; `pin_memory` of a DataLoader is False unless told otherwise. What pinning changes is the bandwidth of copies to
-- the GPU; the time of a step changes by as much as it waits for them.
-- /// study
-- title = "Pinned memory"
-- study = "time unpinned / time pinned"
-- corrected = "bandwidth of copies to the GPU, by kind of memory"
-- fits = "steps and status = 'ok' and sweep in (select sweep from runs group by sweep having count(distinct pin_memory) > 1)"
-- alone = true
-- capture = "tracelab collect sweep S1"
-- example = ["generated/sweeps/generated-settings", "smoke"]
-- chart = { x = "model", by = "quantity" }
-- [answers]
-- effects = { query = "setting_effect", setting = "pin_memory" }
-- ///
select p.quantity, null as run, p.model, null as machine, p.batch_size, p.gpus, p.setting, p.unit, p.value as published, null::double as study, null::double as corrected, p.claim, p.place from published as p
union all
select 'time unpinned / pinned', e.this_run, e.model, f.gpu, e.batch_size, f.gpus, concat_ws(', ', e.layout, e.setting || ': ' || e.base_value || ' → ' || e.value), 'x', null, 1 / nullif(e.step_factor, 0), null, null, null
from effects as e join fitting as f on e.this_run = f.run where e.step_factor is not null
union all
select 'bandwidth to the GPU', e.this_run, e.model, f.gpu, e.batch_size, f.gpus, concat_ws(', ', e.layout, e.setting || ': ' || e.base_value || ' → ' || e.value), 'GB/s', null, e.base_h2d_gb_per_s, e.h2d_gb_per_s, concat_ws(' → ', e.base_h2d_memory, e.h2d_memory), null
from effects as e join fitting as f on e.this_run = f.run where e.h2d_gb_per_s is not null
order by all;

select
    coalesce((select printf('At hand steps take %.3g to %.3g times as long unpinned, %.3g times on average', min(study), max(study), avg(study)) from cells where quantity like 'time%' and run is not null having count(*) > 0), 'No pair of cells that differ in pinning alone is at hand')
    || coalesce((select printf('; copies to the GPU reach %.3g GB/s unpinned and %.3g pinned', avg(study), avg(corrected)) from cells where unit = 'GB/s' having count(*) > 0), '')
    || printf('; the study says %.2g times on average.', (select published from cells where setting like 'mean%')) as verdict
