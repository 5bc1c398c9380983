-- What does not vary with model and batch is the start of the process (S3-09). Peaks of a run that trains do.
-- /// study
-- title = "Memory by model and batch size"
-- study = "no figure: shares of API calls at start-up"
-- corrected = "the most that a device had allocated"
-- fits = "memory_peaks or memory_events"
-- capture = "tracelab collect sweep S3"
-- example = ["generated/sweeps/generated-scaling", "smoke"]
-- chart = { kind = "line", x = "batch_size", by = "model" }
-- [answers]
-- memory = { query = "sweep_memory" }
-- ///
select
    'peak of a device' as quantity, m.run, m.model, f.gpu as machine, m.batch_size, f.gpus, m.layout as setting, 'bytes' as unit,
    null::double as study, max(m.allocated_bytes) as corrected, any_value(p.claim) as claim, any_value(p.place) as place
from memory as m
join fitting as f using (run)
left join published as p on true
where m.allocated_bytes > 0
group by all
order by m.model, m.batch_size, m.run;

select printf('Peaks differ %.2g times between the cells at hand, from %.4g MB to %.4g MB.', max(corrected) / min(corrected), min(corrected) / 1e6, max(corrected) / 1e6) as verdict from cells
