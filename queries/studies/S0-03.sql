-- The sum of kernels' times adds up all devices of a process, counts kernels that run side by side twice, and counts
-- waiting in a collective as work. The time in which a device runs anything avoids the first two.
-- /// study
-- title = "GPU time"
-- study = "sum of the times of all kernels, copies and memsets of a process, of a step"
-- corrected = "time in which any runs on a device, of a step"
-- fits = "kernels and sweep is not null and batch_size is not null"
-- capture = "tracelab collect sweep S0"
-- example = ["generated/sweeps/generated-scaling"]
-- chart = { kind = "line", x = "batch_size", by = "setting" }
-- [answers]
-- runtime = { query = "sweep_runtime" }
-- ///
select
    'GPU time of a step' as quantity,
    q.run,
    q.model,
    f.gpu as machine,
    q.batch_size,
    f.gpus,
    concat_ws(', ', q.layout, nullif(q.variant, '')) as setting,
    'ns' as unit,
    q.gpu_sum_step_ns as study,
    q.gpu_busy_step_ns as corrected
from runtime as q join fitting as f using (run)
where q.gpu_sum_step_ns is not null
order by q.model, q.batch_size, f.gpus, q.run;

select printf('The sum is up to %.3g times the time in which a device ran anything: with more devices and streams it grows while each is done earlier.',
    max(study / nullif(corrected, 0))) as verdict
from cells
