-- A kernel's share of the time rises when its own time grows faster than the rest, or when the rest, as the broadcast
-- of parameters, does not grow at all. Its time per sample shows which.
-- /// study
-- title = "Share of max-pool backward"
-- study = "time of max-pool backward / time of all GPU activity"
-- corrected = "its time for a sample"
-- fits = "kernels and batch_size is not null"
-- capture = "tracelab collect sweep S3 --match '*window-backward*'"
-- example = ["generated/sweeps/generated-shares"]
-- chart = { kind = "line", x = "batch_size", by = "model" }
-- [answers]
-- shares = { query = "sweep_shares" }
-- ///
select
    'share of the GPU activity' as quantity,
    s.run,
    s.model,
    f.gpu as machine,
    s.batch_size,
    f.gpus,
    s.layout as setting,
    'ratio' as unit,
    s.of_gpu_activity_ratio as study,
    null as corrected
from shares as s join fitting as f using (run) where s.share = 'max_pool_backward'
union all by name
select
    'time of a sample' as quantity,
    s.run,
    s.model,
    f.gpu as machine,
    s.batch_size,
    f.gpus,
    s.layout as setting,
    'ns' as unit,
    s.step_ns / nullif(s.batch_size, 0) as corrected
from shares as s join fitting as f using (run) where s.share = 'max_pool_backward'
order by all;

with shares as (
    select run, study, null::double as corrected from cells where study is not null
),
times as (
    select run, null::double as study, corrected from cells where corrected is not null
),
lines as (
    select
        s.label,
        s.least,
        s.most,
        s.at_least.study as first,
        s.at_most.study as last,
        t.at_least.corrected as first_ns,
        t.at_most.corrected as last_ns
    from line_ends('shares', 'fitting', 'batch_size') as s
    left join line_ends('times', 'fitting', 'batch_size') as t using (line, least, most)
)
select
    coalesce(
        join_list(list(
            printf('%s: from batch %d to %d the share goes from %.2f %% to %.2f %%', label, least, most, 100 * first,
                100 * last)
            || coalesce(printf(', the time of a sample from %.4g µs to %.4g µs', first_ns / 1e3, last_ns / 1e3), '')
            order by label)),
        (
            select printf('No two cells differ in the batch size alone; the share is %.2f %% to %.2f %%',
                100 * min(study), 100 * max(study))
            from cells
        )
    ) || '.' as verdict
from lines
