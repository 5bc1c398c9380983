-- 12.4 s with a kernel in a recording of ten minutes mean a GPU that waits nearly all the time; the study looks at
-- shares within these 12.4 s. Copies and memsets do not make a GPU busy: this row lists the time that they take alone.
-- Of the study only the profiler's time limit is known, so its window is the recording; at hand it is each device's
-- activity.
-- /// study
-- title = "How busy the GPU is"
-- study = "not studied"
-- corrected = "time with a kernel or a graph / first to last activity of the device"
-- fits = "kernels or graph_launches"
-- alone = true
-- capture = "tracelab collect sweep S3"
-- example = ["generated/generated-4rank-ddp", "generated/sweeps/generated-shares"]
-- chart = { x = "setting", by = "run" }
-- [answers]
-- parts = { query = "gpu_breakdown" }
-- ///
select
    'busy' as quantity,
    null as run,
    k.model,
    k.machine,
    k.batch_size,
    k.gpus,
    'the study''s terms' as setting,
    'ratio' as unit,
    null::double as study,
    k.value / t.value as corrected,
    t.claim,
    k.place
from published as k join published as t on k.quantity = 'time of kernels' and t.quantity = 'recorded time'
union all by name
select
    'busy' as quantity,
    g.run,
    f.model,
    f.gpu as machine,
    f.batch_size,
    f.gpus,
    printf('rank %d, GPU %d', g.rank, g.device) as setting,
    'ratio' as unit,
    (g.compute_ns + g.exposed_comm_ns) / nullif(g.window_ns, 0) as corrected,
    printf('of %d ns; copies and memsets alone %d ns', g.window_ns, g.exposed_memory_ns) as claim
from parts as g join fitting as f using (run)
order by all;

select
    printf('If the study''s timeline was its ten minutes, the GPU was busy %.2g %% of them',
        (select 100 * corrected from cells where run is null))
    || coalesce((
        select printf('; the devices at hand are busy %.3g %% to %.3g %% of their windows', 100 * min(corrected),
            100 * max(corrected))
        from cells where run is not null having count(*) > 0
    ), '') || '.' as verdict
