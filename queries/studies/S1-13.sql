-- Proposed, never measured: the same cells in fp32 and with 16 bits, by time, memory and accuracy.
-- /// study
-- title = "Mixed precision"
-- study = "proposed"
-- corrected = "time, memory and accuracy of paired cells"
-- fits = "steps and run in (select unnest([base_run, run]) from paired_cells('cell_speeds', 'precision', null, null))"
-- alone = true
-- capture = "tracelab collect sweep S1"
-- example = ["generated/sweeps/generated-settings", "smoke/S1-smoke"]
-- chart = { x = "setting", by = "model" }
-- [answers]
-- effects = { query = "setting_effect", setting = "precision" }
-- ///
select
    p.quantity,
    null as run,
    p.model,
    null as machine,
    p.batch_size,
    p.gpus,
    p.setting,
    p.unit,
    p.value as published,
    null::double as study,
    null::double as corrected,
    p.claim,
    p.place
from published as p
union all by name
select
    'time in the base / in the other precision' as quantity,
    e.this_run as run,
    e.model,
    f.gpu as machine,
    e.batch_size,
    f.gpus,
    concat_ws(', ', e.layout, e.setting || ': ' || e.base_value || ' → ' || e.value) as setting,
    'x' as unit,
    1 / nullif(e.step_factor, 0) as study
from effects as e join fitting as f on e.this_run = f.run where e.step_factor is not null
union all by name
select
    'memory' as quantity,
    e.this_run as run,
    e.model,
    f.gpu as machine,
    e.batch_size,
    f.gpus,
    concat_ws(', ', e.layout, e.setting || ': ' || e.base_value || ' → ' || e.value) as setting,
    'bytes' as unit,
    e.base_allocated_bytes as study,
    e.allocated_bytes as corrected,
    'study: the cell compared with' as claim
from effects as e join fitting as f on e.this_run = f.run where e.allocated_bytes is not null
order by all;

select
    coalesce((
        select join_list(list(printf('%s, %s: %.3g times as fast', coalesce(model, 'one model'), setting, study)
            order by model, setting))
        from cells where run is not null and quantity like 'time%'
    ), 'No pair of cells that differ in precision alone is at hand') || '.' as verdict
