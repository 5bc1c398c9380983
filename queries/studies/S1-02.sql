-- Workers help where the loop waits for data, and only there. How long it waits is recorded with every step. This row
-- compares cells of a sweep that differ only in the workers.
-- /// study
-- title = "Loader workers"
-- study = "time by number of workers"
-- corrected = "share of the steps' time that waits for the loader"
-- fits = "steps and run in (select unnest([base_run, run]) from paired_cells('cell_speeds', 'workers', null, null))"
-- alone = true
-- capture = "tracelab collect sweep S1"
-- example = ["generated/sweeps/generated-settings", "smoke/S1-smoke"]
-- chart = { x = "setting", by = "model" }
-- [answers]
-- effects = { query = "setting_effect", setting = "workers" }
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
    'time with fewer / with more workers' as quantity,
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
    'waiting for data' as quantity,
    e.this_run as run,
    e.model,
    f.gpu as machine,
    e.batch_size,
    f.gpus,
    concat_ws(', ', e.layout, e.setting || ': ' || e.base_value || ' → ' || e.value) as setting,
    'ratio' as unit,
    e.base_data_wait_ratio as study,
    e.data_wait_ratio as corrected,
    'study: fewer workers' as claim
from effects as e join fitting as f on e.this_run = f.run where e.data_wait_ratio is not null
order by all;

with machines as (  -- a mean over unlike machines would be of none
    select
        coalesce(machine, case gpus when 0 then 'a processor' else 'a GPU' end) as machine,
        avg(study) filter (unit = 'ratio') as fewer,
        avg(corrected) filter (unit = 'ratio') as more,
        min(study) filter (unit = 'x') as least,
        max(study) filter (unit = 'x') as most,
        count(*) filter (unit = 'x') as pairs
    from cells where run is not null group by 1
)
select
    coalesce(
        (
            select
                'At hand '
                || string_agg(printf('on %s steps with fewer workers take %s times as long in %d pair%s of cells',
                    machine, format_range(least, most), pairs, case pairs when 1 then '' else 's' end)
                    || coalesce(printf(', and waiting for data %.3g %% of their time with fewer, %.3g %% with more',
                        100 * fewer, 100 * more), ''), '; ' order by machine)
            from machines where pairs > 0
        ),
        'No pair of cells that differ in workers alone is at hand; where no effect is seen, nothing waited for data or something else did'
    ) || '.' as verdict
