-- Whether copies hide behind kernels depends on the card's copy engines; the study has the field's name, and no figure.
-- This row shows both, the capability and how much of it was used.
-- /// study
-- title = "Overlap of copies and kernels"
-- study = "a field's name"
-- corrected = "time with a kernel and a copy / the smaller of both times"
-- fits = "memcpys"
-- capture = "tracelab collect sweep S3"
-- example = ["generated/generated-4rank-ddp", "generated/sweeps/generated-shares"]
-- chart = { x = "setting", by = "run" }
-- [answers]
-- copying = { query = "memcpy_overlap" }
-- ///
select
    'overlap of copies and kernels' as quantity,
    o.run,
    f.model,
    f.gpu as machine,
    f.batch_size,
    f.gpus,
    printf('rank %d, GPU %d', o.rank, o.device) as setting,
    'ratio' as unit,
    o.hidden_ratio as study,
    o.compute_overlap_ratio as corrected,
    coalesce(any_value(d.async_engines) || ' copy engines', 'copy engines unknown') as claim
from copying as o
join fitting as f using (run)
left join devices as d on o.run = d.run and o.rank = d.rank and o.device = d.device
group by o.run, f.model, f.gpu, f.batch_size, f.gpus, o.rank, o.device, o.hidden_ratio, o.compute_overlap_ratio
order by o.run, o.rank, o.device;

select printf('Of what could run beside each other %.3g %% to %.3g %% does; %s.', 100 * min(corrected),
    100 * max(corrected), string_agg(distinct claim, ', ')) as verdict from cells
