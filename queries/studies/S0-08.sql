-- A tenth of CIFAR-100 is 5,000 images for training, not about 6,000; and each of several processes takes its part of
-- them. Iterations are images over batch size and processes, rounded up.
-- /// study
-- title = "Iterations of an epoch"
-- study = "about 6,000 images / batch size"
-- corrected = "ceil(ceil(50,000 / 10 / processes) / batch size)"
-- fits = "steps and sweep is not null and batch_size is not null"
-- alone = true
-- capture = "tracelab collect sweep S0"
-- example = ["generated/sweeps/generated-scaling", "smoke"]
-- chart = { x = "gpus", by = "model" }
-- [answers]
-- speed = { query = "sweep_throughput" }
-- ///
with images as (
    select value, place from published where quantity = 'images'
)
select
    'iterations, batch 2048, 1/10 of the data' as quantity,
    null as run,
    'resnet152' as model,
    'A100' as machine,
    2048 as batch_size,
    g.gpus,
    'CIFAR-100' as setting,
    'count' as unit,
    p.value as published,
    ceil(i.value / 2048) as study,
    ceil(ceil(5000.0 / g.gpus) / 2048) as corrected,
    p.claim,
    p.place
from published as p, images as i, (values (1), (2), (4)) as g(gpus)
where p.quantity = 'iterations of an epoch'
union all by name
select
    'iterations' as quantity,
    q.run,
    q.model,
    f.gpu as machine,
    q.batch_size,
    f.gpus,
    concat_ws(', ', q.layout, nullif(q.variant, '')) as setting,
    'count' as unit,
    q.iterations as study,
    q.expected_iterations as corrected,
    printf('%d images', q.dataset_size) as claim
from speed as q join fitting as f using (run)
where q.iterations is not null and q.expected_iterations is not null
order by all;

select
    (
        select
            'The study''s cell takes '
            || string_agg(printf('%d iteration%s on %d GPU%s', corrected::bigint,
                case when corrected = 1 then '' else 's' end, gpus, case when gpus > 1 then 's' else '' end), ', '
                order by gpus)
        from cells where run is null
    )
    || coalesce((
        select
            printf('; of %d runs at hand %d took as many as the formula predicts', count(*),
                count(*) filter (study = corrected))
            || case
                when count(*) filter (study < corrected) > 0 then printf(', %d fewer: an epoch cut short',
                    count(*) filter (study < corrected))
                else ''
            end
            || case
                when count(*) filter (study > corrected) > 0 then printf(
                    ', %d more: the data set has another size than recorded, or an epoch passes over it more than once',
                    count(*) filter (study > corrected))
                else ''
            end
        from cells where run is not null having count(*) > 0
    ), '') || '.' as verdict
