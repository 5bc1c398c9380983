-- The visual profiler prints two times and 0 %. Kernels of different devices run at once in every data-parallel
-- program, and are no concurrency on a device: the time in which two run is taken of each device on its own, and both
-- terms are shown.
-- /// study
-- title = "Kernel concurrency"
-- study = "time with two kernels on any device / time with one on any device"
-- corrected = "time with two kernels / time with one, of each device"
-- fits = "kernels"
-- alone = true
-- capture = "tracelab collect sweep S3 --match '*alexnet-b64*'"
-- example = ["generated/sweeps/generated-shares", "generated/generated-4rank-ddp"]
-- chart = { x = "setting", by = "run" }
-- [answers]
-- apart = { query = "kernel_concurrency" }
-- ///
with merged as (
    select run, source, rank, 0 as device, start_ns, end_ns from kernels where run in (select run from fitting)
),
together as (
    select run, rank, sum(concurrent_ns) as concurrent_ns, sum(busy_ns) as busy_ns
    from concurrency('merged') group by run, rank
),
own_terms as (
    select
        any_value(model) as model,
        any_value(machine) as machine,
        any_value(batch_size) as batch_size,
        any_value(gpus) as gpus,
        max(value) filter (quantity = 'kernel concurrency') as printed,
        max(value) filter (quantity = 'time of two kernels')
            / max(value) filter (quantity = 'time of kernels') as ratio,
        any_value(claim) filter (claim is not null) as claim,
        any_value(place) as place
    from published
)
select
    'kernel concurrency' as quantity,
    null as run,
    model,
    machine,
    batch_size,
    gpus,
    'the study''s terms' as setting,
    'ratio' as unit,
    printed as published,
    printed as study,
    ratio as corrected,
    claim,
    place
from own_terms
union all by name
select
    'kernel concurrency' as quantity,
    c.run,
    f.model,
    f.gpu as machine,
    f.batch_size,
    f.gpus,
    printf('rank %d, GPU %d', c.rank, c.device) as setting,
    'ratio' as unit,
    t.concurrent_ns / nullif(t.busy_ns, 0) as study,
    c.concurrency_ratio as corrected,
    printf('%d of %d ns', c.concurrent_ns, c.busy_ns) as claim
from apart as c
join together as t on c.run = t.run and c.rank = t.rank
join fitting as f on c.run = f.run
order by all;

select
    (
        select
            printf('The study''s own terms give %.6g %%, ', 100 * corrected)
            || case
                when abs(corrected - published) <= 1e-6 * corrected then 'as it prints'
                when round(100 * corrected) = round(100 * published) then printf('which it rounds to %.3g %%',
                    100 * published)
                else printf('not the %.3g %% that it prints', 100 * published)
            end
        from cells where run is null
    )
    || coalesce((
        select case
            when count(*) filter (study > corrected * 1.01 + 1e-9) > 0 then printf(
                '; of %d devices at hand the most that runs at once is %.6g %%, where all devices taken together reach up to %.6g %%',
                count(*), 100 * max(corrected), 100 * max(study))
            else printf('; of %d devices at hand the most that runs at once is %.6g %%', count(*), 100 * max(corrected))
        end
        from cells where run is not null having count(*) > 0
    ), '') || '.' as verdict
