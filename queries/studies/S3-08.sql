-- Names of Winograd kernels differ by architecture, and which algorithm cuDNN takes differs by shape and batch: a share
-- of one name is no share of convolutions. Families of names are taken instead, and all convolutions beside them.
-- /// study
-- title = "Share of Winograd convolutions"
-- study = "time of Winograd kernels / time of all GPU activity"
-- corrected = "time of all convolution kernels / time of all kernels"
-- fits = "kernels and batch_size is not null"
-- capture = "tracelab collect sweep S3"
-- example = ["generated/sweeps/generated-shares"]
-- chart = { kind = "line", x = "batch_size", by = "model" }
-- [answers]
-- shares = { query = "sweep_shares" }
-- ///
select
    'share of winograd' as quantity,
    s.run,
    s.model,
    f.gpu as machine,
    s.batch_size,
    f.gpus,
    s.layout as setting,
    'ratio' as unit,
    max(s.of_gpu_activity_ratio) filter (s.share = 'winograd') as study,
    sum(s.of_kernel_sum_ratio) filter (s.share in ('winograd', 'other_convolution')) as corrected,
    any_value(p.claim) as claim,
    any_value(p.place) as place
from shares as s
join fitting as f using (run)
left join published as p on contains(f.gpu, p.machine)
where s.share in ('winograd', 'other_convolution')
group by s.run, s.model, f.gpu, s.batch_size, f.gpus, s.layout
order by s.model, s.batch_size, s.run;

select
    coalesce(join_list(list(printf(
        '%s: Winograd takes %.1f %% at batch %d and %.1f %% at %d, convolutions of all kinds %.1f %% and %.1f %%',
        label, 100 * at_least.study, least, 100 * at_most.study, most, 100 * at_least.corrected,
        100 * at_most.corrected) order by label)),
        (
            select printf('No two cells differ in the batch size alone; Winograd takes %.1f to %.1f %%, convolutions of all kinds %.1f to %.1f %%',
                100 * min(study), 100 * max(study), 100 * min(corrected), 100 * max(corrected))
            from cells
        )) || '.' as verdict
from line_ends('cells', 'fitting', 'batch_size')
