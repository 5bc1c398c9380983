-- The profiler's rule fires below a size that is not public. Here the size is a parameter: 64 KiB, and where ceilings
-- were measured also the size at which a copy reaches half of the link's bandwidth.
-- /// study
-- title = "Copies too small"
-- study = "a rule without a figure"
-- corrected = "time of copies below 64 KiB / time of all, host to device"
-- fits = "memcpys or ceilings"
-- capture = "tracelab collect sweep S3"
-- example = ["generated/generated-4rank-ddp", "generated/sweeps/generated-shares"]
-- chart = { x = "setting", by = "run" }
-- [answers]
-- copies = { query = "memcpy_throughput" }
-- ///
select
    'time of small copies' as quantity,
    c.run,
    f.model,
    f.gpu as machine,
    f.batch_size,
    f.gpus,
    printf('GPU %d, %s from %s', c.device, c.direction, coalesce(lower(c.src_memory), 'unknown memory')) as setting,
    'ratio' as unit,
    c.small_copies / nullif(c.copies, 0) as study,
    c.small_dur_ns / nullif(c.dur_ns, 0) as corrected,
    printf('%d of %d copies', c.small_copies, c.copies) as claim
from copies as c
join fitting as f using (run)
where c.direction = 'HtoD'
union all by name
select
    'size at half the bandwidth' as quantity,
    l.run,
    l.device_name as machine,
    l.metric as setting,
    'bytes' as unit,
    l.best as corrected
from ceilings as l
where l.run in (select run from fitting) and l.metric like 'h2d%half'
order by all;

select
    printf('Of the copies to the GPU up to %.0f %% are small, and take up to %.1f %% of the copies'' time.',
        100 * max(study), 100 * max(corrected)) as verdict
from cells
where unit = 'ratio'
