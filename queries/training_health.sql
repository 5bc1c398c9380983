-- Whether a run learned anything: its loss against that of guessing, and its accuracy against chance.
-- A row is one run whose steps have a loss or an accuracy. A model that guesses has a loss of ln(classes), and is right once
-- in `classes`. `verdict` is the first that fits: no_loss, some step's loss is no number (which JSON cannot hold, so it is
-- NULL); diverges, the loss ends above where it began, by more than --flat of it; at_guessing, it ends within --flat of
-- ln(classes), and worse_than_guessing, it ends above that, however far it fell, both where the accuracy, if it is known,
-- is that of chance; at_chance, the accuracy is, though the loss fell below that; flat, the loss ends within --flat of
-- where it began; learns. Accuracy is that of chance at three standard errors above 1 / classes, or less: one that is
-- better was learned, at any loss, to which heads half-way may add (GoogLeNet). Begin and end of the loss are means
-- over the first and the last tenth of the training steps, at least one. The number of classes is --classes, else what the
-- collector wrote down (the labels of its data, or the vocabulary), else the setting `classes` or `vocabulary`, else that
-- of the data set, which in the collector's own noise is 10 and in its transformer 512; where none is known, guessing and
-- chance are not judged.
-- /// query
-- title = "Training health"
-- needs = ["steps"]
-- show = ["run", "model", "batch_size", "verdict", "first_loss", "last_loss", "accuracy", "chance_accuracy"]
-- chart = { kind = "bars", x = "run", y = ["first_loss", "last_loss", "guessing_loss"] }
-- [params]
-- common = ["run"]
-- sweep = { example = "generated-training" }
-- model = "common"
-- classes = { type = "integer", about = "number of classes of the model" }
-- flat = { default = 0.1, about = "a change of the loss below this share is none" }
-- [columns]
-- common = ["run", "sweep", "model", "batch_size", "layout", "variant", "repeat"]
-- verdict = "no_loss, diverges, at_guessing, worse_than_guessing, at_chance, flat or learns."
-- first_loss = "Mean loss of the first tenth of the training steps."
-- last_loss = "Mean loss of the last tenth."
-- guessing_loss = "ln(classes): the loss of a model that guesses."
-- loss_factor = "last_loss / first_loss."
-- accuracy = "Accuracy after the last epoch."
-- chance_accuracy = "1 / classes."
-- standard_error = "sqrt(chance_accuracy × (1 − chance_accuracy) / samples): how far chance strays."
-- measured_on = "common"
-- samples = "Samples that the accuracy was measured on."
-- classes = "Classes."
-- steps = "Training steps."
-- lossless_steps = "Of these, steps without a loss."
-- [report]
-- section = "training"
-- order = 3
-- needs = ["steps"]
-- ok_text = "Every run learns: by its loss, and by its accuracy where that can be judged."
-- unknown = "Whether the runs learn is not known: no run has a loss that is a number in every step."
-- [[report.findings]]
-- when = "nullif(verdict, 'no_loss') <> 'learns'"
-- by = "first_loss"
-- each = "verdict"
-- most = 3
-- text = "{run}: {verdict}[; the loss went from {first_loss}][ to {last_loss}][; guessing among {classes} classes has a loss of {guessing_loss}]."
-- advice = "Check the learning rate, the labels and the normalization of the inputs first; speed figures of a run that does not learn still hold."
-- [[report.findings]]
-- when = "verdict = 'no_loss'"
-- by = "lossless_steps"
-- text = "{run}: {lossless_steps} of {steps} steps have a loss that is no number."
-- advice = "Lower the learning rate, or scale the loss where it is computed in half precision."
-- ///
with ordered as (
    select
        s.run, s.loss,
        row_number() over (partition by s.run order by s.epoch, s.step, s.rank) as place,
        count(*) over (partition by s.run) as places
    from steps as s
    where s.phase = 'train' and s.loss is not null
),
losses as (
    select
        run,
        avg(loss) filter (place <= greatest(places // 10, 1)) as first_loss,
        avg(loss) filter (place > places - greatest(places // 10, 1)) as last_loss
    from ordered
    group by run
),
lasts as (
    select
        run,
        max_by({'accuracy': accuracy, 'samples': samples}, epoch) filter (accuracy is not null) as last,
        max_by(loss, epoch) as epoch_loss,
        min_by(loss, epoch) as first_epoch_loss,
        any_value(measured_on) as measured_on,
        as_bigint(sum(training_steps)) as steps,
        as_bigint(sum(lossless_steps)) as lossless_steps
    from run_learning
    group by run
),
facts as (
    select
        c.*,
        coalesce(l.first_loss, t.first_epoch_loss) as first_loss,
        coalesce(l.last_loss, t.epoch_loss) as last_loss,
        t.last.accuracy as accuracy,
        t.last.samples as samples,
        t.measured_on, t.steps, t.lossless_steps,
        coalesce(
            $classes,
            try_cast(coalesce(c.tags['classes'], c.tags['set.classes'], c.tags['set.vocabulary']) as bigint),
            case c.dataset when 'cifar10' then 10 when 'cifar100' then 100 when 'imagenet' then 1000 end,
            case when c.dataset = 'synthetic' then  -- of runs that were recorded before they recorded their classes
                case c.settings['workload'] when 'image_classification' then 10 when 'transformer' then 512 end
            end
        ) as classes
    from cells as c
    join lasts as t on c.run = t.run
    left join losses as l on c.run = l.run
    where matches(c.run, $run) and matches(c.sweep, $sweep) and matches(c.model, $model)
),
judged as (
    select
        *,
        ln(nullif(greatest(classes, 0), 0)) as guessing_loss,
        1 / nullif(greatest(classes, 0), 0) as chance_accuracy,
        sqrt(chance_accuracy * (1 - chance_accuracy) / nullif(samples, 0)) as standard_error,
        accuracy <= chance_accuracy + 3 * standard_error as is_chance
    from facts
)
select
    run, sweep, model,
    batch_size::bigint as batch_size,
    layout, variant,
    repeat::bigint as repeat,
    case
        when lossless_steps > 0 then 'no_loss'
        when last_loss > first_loss * (1 + $flat) then 'diverges'
        when abs(last_loss - guessing_loss) <= $flat * guessing_loss and coalesce(is_chance, true) then 'at_guessing'
        when last_loss > (1 + $flat) * guessing_loss and coalesce(is_chance, true) then 'worse_than_guessing'
        when is_chance then 'at_chance'
        when abs(last_loss - first_loss) <= $flat * first_loss then 'flat'
        when coalesce(first_loss, accuracy) is not null then 'learns'
    end as verdict,
    first_loss, last_loss, guessing_loss,
    last_loss / nullif(first_loss, 0) as loss_factor,
    accuracy, chance_accuracy, standard_error, measured_on, samples,
    classes::bigint as classes,
    steps, lossless_steps
from judged
order by sweep, model, variant, batch_size, kind, processors, parallelism, repeat, run
