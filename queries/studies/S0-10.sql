-- Readers of a scaling study expect its efficiency, and how much of the time communication takes where nothing hides
-- it. Weak scaling keeps the batch of one process, strong scaling the batch over all processes.
-- /// study
-- title = "Scaling"
-- study = "not reported"
-- corrected = "speed-up / GPUs; time of communication with nothing beside it / window"
-- fits = "(steps and status = 'ok' and sweep is not null) or run in (select run from kernels where regexp_matches(name, '(?i)nccl'))"
-- capture = "tracelab collect sweep S0"
-- example = ["generated/sweeps/generated-scaling", "smoke", "generated/generated-4rank-ddp"]
-- chart = { x = "setting", by = "model" }
-- [answers]
-- scaling = { query = "sweep_scaling" }
-- parts = { query = "gpu_breakdown" }
-- ///
select
    'efficiency' as quantity,
    s.run,
    s.model,
    f.gpu as machine,
    s.batch_size,
    f.gpus,
    concat_ws(', ', s.layout, s.scaling) as setting,
    'ratio' as unit,
    null as study,
    s.efficiency_ratio as corrected
from scaling as s join fitting as f using (run) where s.efficiency_ratio is not null and s.base_run <> s.run
union all by name
select
    'exposed communication' as quantity,
    g.run,
    f.model,
    f.gpu as machine,
    f.batch_size,
    f.gpus,
    'ratio' as unit,
    sum(g.comm_ns) / nullif(sum(g.window_ns), 0) as study,
    sum(g.exposed_comm_ns) / nullif(sum(g.window_ns), 0) as corrected
from parts as g join fitting as f using (run) where g.comm_ns > 0
group by g.run, f.model, f.gpu, f.batch_size, f.gpus
order by all;

select
    coalesce((
        select printf('Efficiency goes from %.3g %% to %.3g %%', 100 * min(corrected), 100 * max(corrected))
        from cells where quantity = 'efficiency' having count(*) > 0
    ), 'No two numbers of GPUs are at hand')
    || coalesce((
        select printf('; communication takes up to %.3g %% of the window, and up to %.3g %% with nothing beside it',
            100 * max(study), 100 * max(corrected))
        from cells where quantity = 'exposed communication' having count(*) > 0
    ), '') || '.' as verdict
