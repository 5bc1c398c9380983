-- Five networks whose cost differs many times over take 5.3 to 5.6 minutes an epoch on one machine: the GPU is not what
-- they wait for. How much of a step the GPU is busy, and how long the loop waits for data, shows what is.
-- /// study
-- title = "Why every model takes as long"
-- study = "not studied"
-- corrected = "GPU busy / window; wait for data / time of steps"
-- fits = "steps and sweep is not null and batch_size is not null"
-- alone = true
-- capture = "tracelab collect sweep S1"
-- example = ["generated/sweeps/generated-settings", "smoke"]
-- chart = { x = "model", by = "quantity" }
-- [answers]
-- speed = { query = "sweep_throughput" }
-- runtime = { query = "sweep_runtime" }
-- ///
with times as (
    select f.model, f.value, m.flop
    from figures as f join models as m using (model) where f.row = 'S1-04' and f.quantity = 'time of an epoch'
)
select
    'time of an epoch' as quantity,
    null as run,
    model,
    'P100' as machine,
    null as batch_size,
    null as gpus,
    'the study' as setting,
    'min' as unit,
    value as published,
    value as study,
    null::double as corrected,
    printf('%.3g GFLOP an image', flop / 1e9) as claim,
    'table I' as place
from times
union all by name
select
    'waiting for data' as quantity,
    q.run,
    q.model,
    f.gpu as machine,
    q.batch_size,
    f.gpus,
    concat_ws(', ', q.layout, nullif(q.variant, '')) as setting,
    'ratio' as unit,
    q.data_wait_ratio as corrected
from speed as q join fitting as f using (run) where q.data_wait_ratio is not null
union all by name
select
    'GPU busy' as quantity,
    r.run,
    r.model,
    f.gpu as machine,
    r.batch_size,
    f.gpus,
    concat_ws(', ', r.layout, nullif(r.variant, '')) as setting,
    'ratio' as unit,
    r.of_window_ratio as corrected
from runtime as r join fitting as f using (run) where r.of_window_ratio is not null
order by all;

select
    (
        select printf(
            'FLOPs differ %.0f times between the models, times %.2f times: something else than the GPU sets the time',
            max(m.flop) / min(m.flop), max(c.study) / min(c.study))
        from cells as c join models as m using (model) where c.run is null
    )
    || coalesce((
        select printf('; at hand the loop waits %.3g %% to %.3g %% of its time for data', 100 * min(corrected),
            100 * max(corrected))
        from cells where quantity = 'waiting for data' having count(*) > 0
    ), '')
    || coalesce((
        select printf(', GPUs are busy %.3g %% to %.3g %%', 100 * min(corrected), 100 * max(corrected))
        from cells where quantity = 'GPU busy' having count(*) > 0
    ), '') || '.' as verdict
