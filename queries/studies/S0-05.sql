-- A convolution is one call in the program, several nested ops in the framework, and as many kernels as cuDNN takes.
-- This row counts the ops and the kernels separately.
-- /// study
-- title = "Calls of convolutions"
-- study = "ops whose name is a convolution's, of a step"
-- corrected = "kernels of convolutions, of a step"
-- fits = "ops and sweep is not null and batch_size is not null"
-- capture = "tracelab collect sweep S0"
-- example = ["generated/sweeps/generated-scaling", "smoke"]
-- chart = { kind = "line", x = "batch_size", by = "setting" }
-- [answers]
-- calls = { query = "sweep_calls" }
-- ///
select
    'convolutions of a step' as quantity,
    q.run,
    q.model,
    f.gpu as machine,
    q.batch_size,
    f.gpus,
    concat_ws(', ', q.layout, nullif(q.variant, '')) as setting,
    'count' as unit,
    q.conv_op_calls_per_step as study,
    q.conv_kernels_per_step as corrected,
    printf('%d of %d inside no other', q.outer_conv_op_calls, q.conv_op_calls) as claim
from calls as q join fitting as f using (run)
where q.conv_op_calls > 0
order by q.model, q.batch_size, f.gpus, q.run;

select printf('A step has %.4g to %.4g ops named as convolutions', min(study), max(study))
    || coalesce(printf(', and %.4g to %.4g kernels of convolutions', min(corrected) filter (corrected > 0),
        max(corrected)), ', and no kernel: nothing ran on a GPU') || '.' as verdict
from cells
