-- Allocations added up over the calls of an epoch fall where there are fewer calls. The peak, which decides whether a
-- run fits, rises with the batch size. This row shows both. A failed run has the peak until its failure, beside its
-- status: a run that ran out of memory needed more.
-- /// study
-- title = "GPU memory"
-- study = "bytes allocated, added up over the calls of an epoch"
-- corrected = "the most that one device had allocated; beside a status, until the run failed"
-- fits = "(memory_peaks or memory_events) and sweep is not null and batch_size is not null"
-- capture = "tracelab collect sweep S0"
-- example = ["generated/sweeps/generated-scaling", "smoke"]
-- chart = { kind = "line", x = "batch_size", by = "setting" }
-- [answers]
-- memory = { query = "sweep_memory" }
-- speed = { query = "sweep_throughput" }
-- calls = { query = "sweep_calls" }
-- ///
with peaks as (
    select
        run,
        model,
        batch_size,
        layout,
        variant,
        status,
        sum(allocation_sum_bytes) as allocation_sum_bytes,
        max(allocated_bytes) as allocated_bytes
    from memory
    where device is not null or run in (select run from fitting where gpus = 0)
    group by all
),
epochs as (
    select run, iterations, expected_iterations from speed
),
recorded_steps as (
    select run, recorded_steps, ranks from calls
)
select
    'memory' as quantity,
    q.run,
    q.model,
    f.gpu as machine,
    q.batch_size,
    f.gpus,
    concat_ws(', ', q.layout, nullif(q.variant, '')) as setting,
    case when q.status in ('oom', 'failed') then q.status end as status,
    'bytes' as unit,
    q.allocation_sum_bytes / nullif(s.recorded_steps, 0) * s.ranks * coalesce(e.expected_iterations,
        e.iterations) as study,
    q.allocated_bytes as corrected,
    any_value(p.claim) as claim,
    any_value(p.place) as place
from peaks as q
join fitting as f using (run)
left join epochs as e using (run)
left join recorded_steps as s using (run)
left join published as p on true
where q.allocated_bytes is not null
group by all
order by q.model, q.batch_size, f.gpus, q.run;

with ends as (
    select
        model, machine, setting,
        min(batch_size) as least, max(batch_size) as most,
        arg_min(study, batch_size) as sum_least, arg_max(study, batch_size) as sum_most,
        arg_min(corrected, batch_size) as peak_least, arg_max(corrected, batch_size) as peak_most
    from cells
    where study is not null and corrected is not null and status is null
    group by all
    having count(*) > 1
)
select
    coalesce(
        (
            select printf('From the smallest to the largest batch of each layout the sum over an epoch changes %.2g to %.2g times, the peak of a device %.3g to %.3g times',
                min(sum_most / sum_least), max(sum_most / sum_least), min(peak_most / peak_least),
                max(peak_most / peak_least))
            from ends having count(*) > 0
        ),
        (
            select printf('The sums are %.3g to %.3g times the peaks', min(study / corrected), max(study / corrected))
            from cells where study is not null and status is null having count(*) > 0
        ),
        (
            select printf(
                'Peaks go from %.4g MB to %.4g MB; allocations were not recorded, so the study''s sum is not at hand',
                min(corrected) / 1e6, max(corrected) / 1e6)
            from cells where status is null having count(*) > 0
        ),
        'No run with a peak came to its end'
    )
    || coalesce((
        select printf('; %d of %d runs failed: the peak beside their status, up to %.4g GB, is the one until then',
            count(status), count(*), max(corrected) filter (status is not null) / 1e9)
        from cells having count(status) > 0
    ), '') || '.' as verdict
