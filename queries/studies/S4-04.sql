-- DataParallel gathers the outputs of all replicas on the first GPU, computes the loss there and adds up the gradients
-- there: it needs more memory than the others. Gradients' graphs stay where they were made.
-- /// study
-- title = "Imbalance of memory"
-- study = "not measured"
-- corrected = "peak of the first GPU / mean peak of the others"
-- fits = "(memory_peaks or memory_events) and gpus > 1"
-- capture = "tracelab collect sweep S4 --match '*-dp*'"
-- example = ["generated/sweeps/generated-scaling", "generated/generated-4rank-ddp"]
-- chart = { kind = "line", x = "batch_size", by = "setting" }
-- [answers]
-- memory = { query = "sweep_memory" }
-- ///
select
    'peak of the first GPU / of the others' as quantity,
    m.run,
    m.model,
    f.gpu as machine,
    m.batch_size,
    f.gpus,
    concat_ws(', ', m.layout, nullif(m.variant, '')) as setting,
    'x' as unit,
    null::double as study,
    m.imbalance_factor as corrected,
    printf('%d and %d bytes', m.allocated_bytes, m.others_mean_bytes::bigint) as claim
from memory as m join fitting as f using (run)
where m.imbalance_factor is not null
qualify row_number() over (partition by m.run order by m.rank, m.device) = 1
order by m.model, m.batch_size, m.run;

select
    coalesce((
        select printf('Under DataParallel the first GPU holds %.3g to %.3g times what the others do', min(corrected),
            max(corrected))
        from cells where regexp_matches(setting, '\bdp\b') having count(*) > 0
    ), 'No run under DataParallel has peaks')
    || coalesce((
        select printf('; under DDP it is %.3g to %.3g', min(corrected), max(corrected))
        from cells where contains(setting, 'ddp') having count(*) > 0
    ), '') || '.' as verdict
from (select 1)
