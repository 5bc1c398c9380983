-- The study has pinned memory switched off cost 40 % of the time on average, and 60 % for VGG16-BN, and calls it
-- PyTorch's default; `pin_memory` of a DataLoader is False by default. What pinning changes is the bandwidth of copies
-- to the GPU; the time of a step changes by as much as it waits for them.
-- /// study
-- title = "Pinned memory"
-- study = "time unpinned / time pinned"
-- corrected = "bandwidth of copies to the GPU, by kind of memory"
-- fits = "steps and run in (select unnest([base_run, run]) from paired_cells('cell_speeds', 'pin_memory', null, null))"
-- alone = true
-- capture = "tracelab collect sweep S1"
-- example = ["generated/sweeps/generated-settings", "smoke"]
-- chart = { x = "model", by = "quantity" }
-- [answers]
-- effects = { query = "setting_effect", setting = "pin_memory" }
-- ///
with pairs as (
    select e.*, f.gpus, coalesce(f.gpu, case f.gpus when 0 then 'a processor' else 'a GPU' end) as machine
    from effects as e join fitting as f on e.this_run = f.run
    where e.base_run in (select run from fitting)
)
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
    'time unpinned / pinned' as quantity,
    e.this_run as run,
    e.model,
    e.machine,
    e.batch_size,
    e.gpus,
    concat_ws(', ', e.layout, e.setting || ': ' || e.base_value || ' → ' || e.value) as setting,
    'x' as unit,
    1 / nullif(e.step_factor, 0) as study
from pairs as e where e.step_factor is not null
union all by name
select
    'bandwidth to the GPU' as quantity,
    e.this_run as run,
    e.model,
    e.machine,
    e.batch_size,
    e.gpus,
    concat_ws(', ', e.layout, e.setting || ': ' || e.base_value || ' → ' || e.value) as setting,
    'GB/s' as unit,
    e.base_h2d_gb_per_s as study,
    e.h2d_gb_per_s as corrected,
    concat_ws(' → ', e.base_h2d_memory, e.h2d_memory) as claim
from pairs as e where e.h2d_gb_per_s is not null
order by all;

with machines as (  -- a processor copies nothing to a GPU: its pairs show nothing about pinning
    select
        machine,
        avg(study) filter (unit = 'x') as mean,
        min(study) filter (unit = 'x') as least,
        max(study) filter (unit = 'x') as most,
        count(*) filter (unit = 'x') as pairs,
        avg(study) filter (unit = 'GB/s') as unpinned,
        avg(corrected) filter (unit = 'GB/s') as pinned
    from cells where run is not null group by machine
)
select
    coalesce('At hand '
        || (
            select join_list(list(printf(
                'on %s steps take %s times as long unpinned, %.3g times on average of %d pair%s', machine,
                format_range(least, most), mean, pairs, case pairs when 1 then '' else 's' end)
                || coalesce(printf(', copies to the GPU reach %.3g GB/s unpinned and %.3g pinned', unpinned, pinned),
                    ', and nothing is copied to a GPU') order by machine))
            from machines where pairs > 0
        ), 'No pair of cells that differ in pinning alone is at hand')
    || printf('; the study reports %.3g times on average.',
        (select published from cells where setting like 'mean%')) as verdict
