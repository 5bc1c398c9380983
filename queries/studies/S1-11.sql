-- nvidia-smi tells what the card has in use: the framework's reserve, the driver's context, and everyone else there. What
-- the model needs is what the framework allocated.
-- /// study
-- title = "Memory as nvidia-smi tells it"
-- study = "in use on the card"
-- corrected = "most allocated, and reserved, by the framework"
-- fits = "run in (select run from host_samples where used_bytes is not null) and (memory_peaks or memory_events or run in (select run from host_samples where rss_bytes is not null))"
-- capture = "tracelab collect sweep S1"
-- example = ["generated/sweeps/generated-scaling", "smoke"]
-- chart = { kind = "line", x = "batch_size", by = "model" }
-- [answers]
-- memory = { query = "sweep_memory" }
-- ///
select 'in use' as quantity, m.run, m.model, f.gpu as machine, m.batch_size, f.gpus, coalesce('GPU ' || m.device, 'host') as setting, 'bytes' as unit, m.used_bytes as study, coalesce(m.allocated_bytes, m.rss_bytes) as corrected,
    printf('%.3g %% of all, %s reserved', 100 * m.of_total_ratio, coalesce(format('{:,}', m.reserved_bytes), 'nothing')) as claim
from memory as m join fitting as f using (run)
where m.used_bytes is not null and coalesce(m.allocated_bytes, m.rss_bytes) > 0
order by m.model, m.batch_size, m.run, m.rank, m.device;

select printf('What is in use is %.3g to %.3g times what the run itself needed at its peak.', min(study / corrected), max(study / corrected)) as verdict from cells
