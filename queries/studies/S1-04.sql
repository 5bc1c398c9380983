-- Table I: time, accuracy and memory of five models, fine-tuned on CIFAR-10 for one epoch on a P100. An accuracy of one
-- in as many as there are classes is a failed training, and no point of a comparison; a share of memory is GB over the
-- card's.
-- /// study
-- title = "Table I"
-- study = "share of memory as printed"
-- corrected = "GB / GB of the card; accuracy beside that of guessing"
-- fits = "steps and pretrained and epochs = 1 and dataset = 'cifar10' and gpu is not null and gpu not like '%3080%'"
-- alone = true
-- capture = "tracelab collect sweep S1 --fixed data_root=DIR"
-- example = ["generated/sweeps/generated-machines"]
-- chart = { x = "model", by = "machine" }
-- [answers]
-- speed = { query = "sweep_throughput" }
-- accuracies = { query = "training_convergence" }
-- memory = { query = "sweep_memory" }
-- ///
with card as (
    select any_value(value) as gb from published where quantity = 'memory of the card'
),
at_hand as (
    select
        q.run, q.model, f.gpu as machine, q.epoch_ns, f.gpus, q.batch_size, a.last_accuracy, f.dataset
    from speed as q
    join fitting as f using (run)
    left join accuracies as a using (run)
)
select
    'time of an epoch' as quantity,
    null as run,
    p.model,
    p.machine,
    null as batch_size,
    p.gpus,
    'the study' as setting,
    p.unit,
    p.value as published,
    null::double as study,
    null::double as corrected,
    null as claim,
    p.place
from published as p where p.quantity = 'time of an epoch'
union all by name
select
    'accuracy' as quantity,
    p.model,
    p.machine,
    p.gpus,
    'the study' as setting,
    p.unit,
    p.value as published,
    p.value as study,
    case p.setting when 'cifar10' then 0.1 else 0.01 end as corrected,
    'corrected: guessing' as claim,
    p.place
from published as p where p.quantity = 'accuracy'
union all by name
select
    'share of memory' as quantity,
    p.model,
    p.machine,
    p.gpus,
    'the study' as setting,
    p.unit,
    p.value as published,
    p.value as study,
    g.value / card.gb as corrected,
    g.value || ' of ' || card.gb || ' GB' as claim,
    p.place
from published as p
join published as g on p.model = g.model and g.quantity = 'memory used' cross join card
where p.quantity = 'share of memory'
union all by name
select
    'time of an epoch' as quantity,
    run,
    model,
    machine,
    batch_size,
    gpus,
    dataset as setting,
    'min' as unit,
    epoch_ns / 60e9 as corrected
from at_hand where epoch_ns is not null
union all by name
select
    'accuracy' as quantity,
    run,
    model,
    machine,
    batch_size,
    gpus,
    dataset as setting,
    'ratio' as unit,
    last_accuracy as study,
    case dataset when 'cifar10' then 0.1 when 'cifar100' then 0.01 end as corrected,
    'corrected: guessing' as claim
from at_hand
where last_accuracy is not null
union all by name
select
    'share of memory' as quantity,
    m.run,
    m.model,
    f.gpu as machine,
    m.batch_size,
    f.gpus,
    f.dataset as setting,
    'ratio' as unit,
    max(m.of_total_ratio) as corrected
from memory as m join fitting as f using (run) where m.of_total_ratio is not null and m.device is not null
group by m.run, m.model, f.gpu, m.batch_size, f.gpus, f.dataset
order by all;

with chance as (
    select coalesce(run, model) as name from cells where quantity = 'accuracy' and study <= 1.2 * corrected
),
memory as (
    select model, published, corrected, abs(published - corrected) as error
    from cells where quantity = 'share of memory' and published is not null
),
ordered as (
    select median(corrected) as middle, max(corrected) as most, arg_max(model, corrected) as model from memory
),
elsewhere as (  -- the same model's memory, here and in the other tables
    select o.model, p.value as gb, min(o.value) as least, max(o.value) as most, median(o.value) as middle
    from figures as o
    join published as p using (model, quantity)
    where o.quantity = 'memory used' and o.row <> p.row and starts_with(o.row, 'S1-')
    group by o.model, p.value
),
epochs as (
    select min(corrected) as least, max(corrected) as most, count(distinct run) as runs
    from cells where quantity = 'time of an epoch' and run is not null
)
select
    coalesce((
        select string_agg(name, ', ' order by name) || ' is at chance: it was not trained'
        from chance having count(*) > 0
    ), 'No model is at chance')
    || (
        select printf('; the shares of memory are right within %.2g points (%s: %.3g %% printed, %.3g %%)',
            100 * max(error), arg_max(model, error), 100 * arg_max(published, error), 100 * arg_max(corrected, error))
        from memory
    )
    || (select printf('; %s takes %.2g times the middle model''s memory', model, most / middle) from ordered)
    || coalesce((
        select string_agg(printf('; %s has %.1f GB, where the other tables list %.1f to %.1f', model, gb, least, most),
            '' order by model)
        from elsewhere where gb > 2 * middle or gb < middle / 2
    ), '')
    || coalesce((
        select printf('; at hand an epoch takes %s min in %d run%s', format_range(least, most), runs,
            case runs when 1 then '' else 's' end)
        from epochs where runs > 0
    ), '') || '.' as verdict
