-- The kernel whose share falls with the batch is NCCL's broadcast, which the study takes for the copy of data from the
-- host. Under DataParallel it carries the parameters from the first GPU to the others, once a step: as many bytes and as
-- much time whatever the batch; its share falls because the rest grows. What comes from the host are the copies, which
-- grow with the batch.
-- /// study
-- title = "Share of broadcasts"
-- study = "time of broadcasts / time of all kernels, copies and fills"
-- corrected = "bytes of a step: the parameters', device to device"
-- fits = "kernels and run in (select run from kernels where regexp_matches(name, '(?i)nccl.*broadcast'))"
-- capture = "tracelab collect sweep S3"
-- example = ["generated/sweeps/generated-shares"]
-- chart = { kind = "line", x = "batch_size", by = "model" }
-- [answers]
-- shares = { query = "sweep_shares" }
-- ///
with broadcasts as (
    select
        s.*, d.devices, f.gpu as machine, f.gpus,
        coalesce(s.step_bytes / d.devices, s.parameter_bytes) as moved_bytes,
        concat(case when s.step_bytes is not null then 'as the recording says' else 'as the model''s size says' end, coalesce('; parameters ' || format('{:,}', s.parameter_bytes), '')) as bytes_source,
        s.parameter_bytes = s.step_bytes / d.devices as is_parameters
    from shares as s
    join (
        select run, count(distinct (rank, device)) / count(distinct rank) as devices  -- of a process: its steps are counted
        from kernels where regexp_matches(name, '(?i)broadcast') group by run
    ) as d using (run)
    join fitting as f using (run)
    where s.share = 'broadcast' and s.calls > 0
),
from_host as (
    select m.run, sum(m.size_bytes) as size_bytes from memcpys as m where m.direction = 'HtoD' and m.run in (select run from fitting) group by m.run
)
select 'share of the GPU activity' as quantity, null as run, model, machine, batch_size, gpus, 'the study' as setting, unit, value as published, null::double as study, null::double as corrected, claim, place
from published
union all
select 'share of the GPU activity', run, model, machine, batch_size, gpus, layout, 'ratio', null, of_gpu_activity_ratio, of_window_ratio, 'corrected: of the window', null from broadcasts
union all
select 'time of a step''s broadcasts, each GPU', run, model, machine, batch_size, gpus, layout, 'ns', null, null, step_ns / devices, null, null from broadcasts
union all
select 'bytes of a step, device to device, each GPU', run, model, machine, batch_size, gpus, layout, 'bytes', null, null, moved_bytes, bytes_source, null from broadcasts
union all
select 'bytes of a step, from the host', b.run, b.model, b.machine, b.batch_size, b.gpus, b.layout, 'bytes', null, null, h.size_bytes / nullif(b.recorded_steps, 0), null, null
from broadcasts as b join from_host as h using (run)
order by all;

with wide as (
    select
        run, model, batch_size, gpus,
        max(study) filter (quantity = 'share of the GPU activity') as share,
        max(corrected) filter (starts_with(quantity, 'time')) as step_ns,
        max(corrected) filter (contains(quantity, 'device to device')) as device_bytes,
        max(corrected) filter (contains(quantity, 'from the host')) as host_bytes
    from cells
    where run is not null
    group by all
),
ends as (
    select
        model,
        min(batch_size) as least, max(batch_size) as most,
        arg_min(share, batch_size) as share_least, arg_max(share, batch_size) as share_most,
        arg_max(step_ns, batch_size) / arg_min(step_ns, batch_size) as ns_factor,
        max(device_bytes) / min(device_bytes) as bytes_factor,
        arg_max(host_bytes, batch_size) / nullif(arg_min(host_bytes, batch_size), 0) as host_factor
    from wide
    group by model, gpus
),
known as (
    select count(*) as cells, count(*) filter (c.corrected = m.parameter_bytes) as as_parameters
    from cells as c join fitting as m using (run)
    where contains(c.quantity, 'device to device')
)
select
    case when max(most) > min(least) then printf('From batch %d to %d broadcasts take %.1f–%.1f %% of the activity, then %.1f–%.1f %%, while a step''s broadcasts take %.2f times as long and carry %.2f times the bytes', min(least), max(most),
        100 * min(share_least), 100 * max(share_least), 100 * min(share_most), 100 * max(share_most), max(ns_factor), max(bytes_factor))
        else printf('Broadcasts take %.1f–%.1f %% of the activity', 100 * min(share_least), 100 * max(share_least)) end
    || printf(', in %d of %d cells exactly the parameters'', from GPU to GPU', any_value(as_parameters), any_value(cells))
    || coalesce(printf('; what comes from the host grows %.1f times', max(host_factor) filter (most > least)), '') || '.' as verdict
from ends, known
