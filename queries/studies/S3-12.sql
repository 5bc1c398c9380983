-- A kernel's share of the time rises when its own time grows faster than the rest, or when the rest, as the broadcast of
-- parameters, does not grow at all. Its time for a sample tells which.
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
select 'share of the GPU activity' as quantity, s.run, s.model, f.gpu as machine, s.batch_size, f.gpus, s.layout as setting, 'ratio' as unit, s.of_gpu_activity_ratio as study, null as corrected
from shares as s join fitting as f using (run) where s.share = 'max_pool_backward'
union all
select 'time of a sample', s.run, s.model, f.gpu, s.batch_size, f.gpus, s.layout, 'ns', null, s.step_ns / nullif(s.batch_size, 0)
from shares as s join fitting as f using (run) where s.share = 'max_pool_backward'
order by all;

with told as (
    select
        model,
        arg_min(study, batch_size) filter (study is not null) as first, arg_max(study, batch_size) filter (study is not null) as last,
        arg_min(corrected, batch_size) filter (corrected is not null) as first_ns, arg_max(corrected, batch_size) filter (corrected is not null) as last_ns
    from cells
    group by model
)
select string_agg(printf('%s: the share goes from %.2f %% to %.2f %%, the time of a sample from %.4g µs to %.4g µs', coalesce(model, 'one model'), 100 * first, 100 * last, first_ns / 1e3, last_ns / 1e3), '; ' order by model) || '.' as verdict
from told
where first is not null
