-- The kernel whose share falls with the batch is NCCL's broadcast, which the study takes for the copy of data from the
-- host. Under DataParallel it carries the parameters from the first GPU to the others, once a step: as many bytes and
-- as much time for every batch size; its share falls because the rest grows. What comes from the host are the copies,
-- which grow with the batch.
-- /// study
-- title = "Share of broadcasts"
-- study = "time of broadcasts / time of all kernels, copies and memsets"
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
        concat_ws(', ', s.layout, nullif(s.variant, '')) as setting,
        coalesce(s.step_bytes / d.devices, s.parameter_bytes) as moved_bytes,
        concat(case when s.step_bytes is not null then 'as recorded' else 'from the model''s size' end,
            coalesce('; parameters ' || format('{:,}', s.parameter_bytes), '')) as bytes_source
    from shares as s
    join (
        select run,
            count(distinct (rank, device)) / count(distinct rank) as devices  -- of a process: its steps are counted
        from kernels where regexp_matches(name, '(?i)broadcast') group by run
    ) as d using (run)
    join fitting as f using (run)
    where s.share = 'broadcast' and s.calls > 0
),
from_host as (
    select m.run, sum(m.size_bytes) as size_bytes
    from memcpys as m where m.direction = 'HtoD' and m.run in (select run from fitting) group by m.run
)
select
    'share of the GPU activity' as quantity,
    null as run,
    model,
    machine,
    batch_size,
    gpus,
    'the study' as setting,
    unit,
    value as published,
    null::double as study,
    null::double as corrected,
    claim,
    place
from published
union all by name
select
    'share of the GPU activity' as quantity,
    run,
    model,
    machine,
    batch_size,
    gpus,
    setting,
    'ratio' as unit,
    of_gpu_activity_ratio as study,
    of_window_ratio as corrected,
    'corrected: of the window' as claim
from broadcasts
union all by name
select
    'time of a step''s broadcasts, each GPU' as quantity,
    run,
    model,
    machine,
    batch_size,
    gpus,
    setting,
    'ns' as unit,
    step_ns / devices as corrected
from broadcasts
union all by name
select
    'bytes of a step, device to device, each GPU' as quantity,
    run,
    model,
    machine,
    batch_size,
    gpus,
    setting,
    'bytes' as unit,
    moved_bytes as corrected,
    bytes_source as claim
from broadcasts
union all by name
select
    'bytes of a step, from the host' as quantity,
    b.run,
    b.model,
    b.machine,
    b.batch_size,
    b.gpus,
    b.setting,
    'bytes' as unit,
    h.size_bytes / nullif(b.recorded_steps, 0) as corrected
from broadcasts as b join from_host as h using (run)
order by all;

with activity as (
    select run, study, corrected from cells where quantity = 'share of the GPU activity' and run is not null
),
times as (
    select run, study, corrected from cells where starts_with(quantity, 'time of a step')
),
carried as (  -- bytes from the model's size stay the same by construction
    select c.run, c.study, c.corrected, c.corrected = f.parameter_bytes as is_parameters
    from cells as c join fitting as f using (run)
    where contains(c.quantity, 'device to device') and starts_with(c.claim, 'as recorded')
),
copied as (
    select run, study, corrected from cells where contains(quantity, 'from the host') and corrected > 0
),
lines as (
    select
        s.label, s.least, s.most, s.at_least.study as first, s.at_most.study as last,
        t.at_most.corrected / nullif(t.at_least.corrected, 0) as time_factor,
        b.at_most.corrected / nullif(b.at_least.corrected, 0) as bytes_factor,
        h.at_most.corrected / nullif(h.at_least.corrected, 0) as host_factor
    from line_ends('activity', 'fitting', 'batch_size') as s
    left join line_ends('times', 'fitting', 'batch_size') as t using (line, least, most)
    left join line_ends('carried', 'fitting', 'batch_size') as b using (line, least, most)
    left join line_ends('copied', 'fitting', 'batch_size') as h using (line, least, most)
)
select
    coalesce(
        (
            select join_list(list(printf(
                '%s: from batch %d to %d broadcasts go from %.1f %% to %.1f %% of the activity', label, least, most,
                100 * first, 100 * last)
                || coalesce(printf(', a step''s take %.2f times as long', time_factor), '')
                || coalesce(printf(', carry %.2f times the bytes', bytes_factor), '')
                || coalesce(printf(', and %.1f times as much comes from the host', host_factor), '') order by label))
            from lines
        ),
        (
            select printf(
                'No two cells differ in the batch size alone; broadcasts take %.1f to %.1f %% of the activity',
                100 * min(study), 100 * max(study))
            from activity
        )
    )
    || (
        select case count(*)
            when 0 then '. No recording has the bytes of a broadcast'
            else printf(
                '. Of %d recording%s with the bytes of broadcasts, %d ha%s exactly the parameters'', from GPU to GPU',
                count(*), case count(*) when 1 then '' else 's' end, count(*) filter (is_parameters),
                case count(*) filter (is_parameters) when 1 then 's' else 've' end)
        end
        from carried
    ) || '.' as verdict
