-- What the profiler calls the memory of an op is the sum of its allocations less its releases over all calls, which is
-- no peak and no transfer. The process's resident memory is what the host needs.
-- /// study
-- title = "CPU memory"
-- study = "largest sum over an op's calls of allocations less releases, on the host"
-- corrected = "most resident memory of the process"
-- fits = "run in (select run from host_samples where rss_bytes is not null) and sweep is not null and batch_size is not null"
-- capture = "tracelab collect sweep S0"
-- example = ["generated/sweeps/generated-scaling", "smoke"]
-- chart = { kind = "line", x = "batch_size", by = "setting" }
-- [answers]
-- memory = { query = "sweep_memory" }
-- ///
select
    'memory of the host' as quantity,
    q.run,
    q.model,
    f.gpu as machine,
    q.batch_size,
    f.gpus,
    concat_ws(', ', q.layout, nullif(q.variant, '')) as setting,
    'bytes' as unit,
    max(q.op_sum_bytes) filter (q.device is null) as study,
    max(q.rss_bytes) as corrected
from memory as q join fitting as f using (run)
group by q.run, q.model, f.gpu, q.batch_size, f.gpus, concat_ws(', ', q.layout, nullif(q.variant, '')), q.layout,
    q.variant
having max(q.rss_bytes) is not null
order by q.model, q.batch_size, f.gpus, q.run;

select printf('The process holds %.4g MB to %.4g MB; the sum over calls is %s.', min(corrected) / 1e6,
    max(corrected) / 1e6,
    coalesce(printf('%.4g MB to %.4g MB', min(study) / 1e6, max(study) / 1e6),
        'unknown, because the allocations on the host were not recorded')) as verdict
from cells
