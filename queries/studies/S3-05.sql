-- Two copies at once need two engines and two directions, or two streams. The time in which two run is held against the
-- time in which any runs, of each device.
-- /// study
-- title = "Overlap of copies"
-- study = "a rule without a figure"
-- corrected = "time with two copies / time with one, of each device"
-- fits = "memcpys"
-- capture = "tracelab collect sweep S3"
-- example = ["generated/generated-4rank-ddp", "generated/sweeps/generated-shares"]
-- chart = { x = "setting", by = "run" }
-- [answers]
-- copying = { query = "memcpy_overlap" }
-- ///
select
    'overlap of copies' as quantity,
    o.run,
    f.model,
    f.gpu as machine,
    f.batch_size,
    f.gpus,
    printf('rank %d, GPU %d', o.rank, o.device) as setting,
    'ratio' as unit,
    round(o.copy_overlap_ratio, 2) as study,
    o.copy_overlap_ratio as corrected,
    printf('%d of %d ns', o.copy_concurrent_ns, o.copy_busy_ns) as claim
from copying as o
join fitting as f using (run)
order by o.run, o.rank, o.device;

select printf('Two copies run at once in at most %.3g %% of the time in which any does.',
    100 * max(corrected)) as verdict from cells
