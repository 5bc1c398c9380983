-- There is a batch size with the best accuracy after a fixed number of epochs, and another with the least time. 3
-- minutes for 14 epochs do not go with 5.3 minutes for one (table I): another network or resolution must have been
-- measured.
-- /// study
-- title = "Batch size"
-- study = "accuracy and time by batch size"
-- corrected = "time of an epoch by batch size, and best accuracy"
-- fits = "steps and status = 'ok' and sweep is not null and batch_size is not null"
-- alone = true
-- capture = "tracelab collect sweep S1"
-- example = ["generated/sweeps/generated-scaling", "generated/sweeps/generated-training", "smoke"]
-- chart = { kind = "line", x = "batch_size", by = "setting" }
-- [answers]
-- speed = { query = "sweep_throughput" }
-- accuracies = { query = "training_convergence" }
-- ///
select
    p.quantity,
    null as run,
    p.model,
    null as machine,
    p.batch_size,
    p.gpus,
    p.setting,
    p.unit,
    p.value as published,
    null::double as study,
    null::double as corrected,
    p.claim,
    p.place
from published as p
union all by name
select
    'time of one epoch' as quantity,
    batch_size,
    gpus,
    'min' as unit,
    value / regexp_extract(quantity, '\d+')::double as study,
    printf('of %s in %.3g min', regexp_extract(quantity, '\d+'), value) as claim
from published where regexp_matches(quantity, 'time of \d+ epochs')
union all by name
select
    'samples a second' as quantity,
    q.run,
    q.model,
    f.gpu as machine,
    q.batch_size,
    f.gpus,
    concat_ws(', ', q.layout, nullif(q.variant, '')) as setting,
    'samples/s' as unit,
    q.samples_per_s as corrected
from speed as q join fitting as f using (run) where q.samples_per_s is not null
union all by name
select
    'best accuracy' as quantity,
    a.run,
    a.model,
    f.gpu as machine,
    a.batch_size,
    f.gpus,
    concat_ws(', ', a.layout, nullif(a.variant, '')) as setting,
    'ratio' as unit,
    a.best_accuracy as corrected
from accuracies as a join fitting as f using (run) where a.best_accuracy is not null
order by all;

with listed_epoch as (
    select c.study, c.claim, t.value as listed_time
    from cells as c, (select min(value) as value from figures where row = 'S1-04'
        and quantity = 'time of an epoch') as t
    where c.quantity = 'time of one epoch'
),
speeds as (
    select run, study, corrected from cells where unit = 'samples/s'
),
best_accuracies as (
    select run, study, corrected from cells where quantity = 'best accuracy' and run is not null
),
bests as (
    select
        1 as place,
        'the fastest' as what,
        printf('%.4g samples/s', best) as how,
        label,
        least,
        most,
        best_point,
        best = worst as is_even
    from line_bests('speeds', 'fitting', 'batch_size')
    union all by name
    select
        2 as place,
        'the most accurate' as what,
        printf('%.3g %%', 100 * best) as how,
        label,
        least,
        most,
        best_point,
        best = worst as is_even
    from line_bests('best_accuracies', 'fitting', 'batch_size')
),
changes as (
    select
        place,
        case count(*)
            when 1 then printf('%s: of batches %d to %d, %d is %s with %s', any_value(label), any_value(least),
                any_value(most), any_value(best_point), what, any_value(how))
            else printf('of %d lines of cells that differ in the batch size alone the largest batch is %s in %d, the smallest in %d, all alike in %d',
                count(*), what, count(*) filter (best_point = most and not is_even),
                count(*) filter (best_point = least and not is_even), count(*) filter (is_even))
        end as change
    from bests
    group by place, what
)
select
    (
        select printf('An epoch %s takes %.2g min, 1/%.0f of table I''s %.3g', claim, study, listed_time / study,
            listed_time)
        from listed_epoch
    )
    || coalesce((select '; at hand, ' || string_agg(change, '; ' order by place) from changes),
        '; no two cells at hand differ in the batch size alone') || '.' as verdict
