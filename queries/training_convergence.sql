-- How good each run got, how long it took to reach a goal, and when it stopped getting better.
-- A row is one run that measured accuracy. A run has converged at the first epoch from which on the accuracy changed by less
-- than --eps at each of the next --patience epochs; NULL where it did not, or had too few epochs. Time to accuracy
-- is the start of the first epoch to the end of the first one that reached --target. A training at chance converges at
-- once: see training_health.
-- /// query
-- title = "Convergence and time to accuracy"
-- needs = ["steps"]
-- show = ["run", "model", "batch_size", "epochs", "best_accuracy", "best_epoch", "converged_epoch", "converged_ns"]
-- chart = { kind = "bars", x = "run", y = ["first_accuracy", "best_accuracy", "last_accuracy"] }
-- [params]
-- common = ["run"]
-- sweep = { example = "generated-training" }
-- model = "common"
-- target = { default = 0.5, about = "the accuracy whose time is selected for, 0 to 1" }
-- eps = { default = 0.005, about = "a change of accuracy below this is none" }
-- patience = { default = 3, about = "so many epochs in a row without a change are convergence" }
-- [columns]
-- common = ["run", "sweep", "model", "batch_size", "layout", "variant", "repeat", "measured_on"]
-- epochs = "Epochs with an accuracy."
-- first_accuracy = "Accuracy after the first of them."
-- last_accuracy = "Accuracy after the last of them."
-- best_accuracy = "The best accuracy."
-- best_epoch = "The first epoch that had it, from 0."
-- target_epoch = "The first epoch that reached the target; NULL where none did."
-- target_ns = "Start of the first epoch to the end of that one: the time to accuracy."
-- converged_epoch = "The first epoch after which the accuracy no longer changed."
-- converged_accuracy = "The accuracy then."
-- converged_ns = "Start of the first epoch to the end of that one."
-- total_ns = "Start of the first epoch to the end of the last."
-- [report]
-- section = "training"
-- order = 2
-- needs = ["steps"]
-- [[report.findings]]
-- when = "converged_epoch is null and epochs > 0"
-- by = "last_accuracy - first_accuracy"
-- text = "{run} had not converged after {epochs} epochs: its accuracy went from {first_accuracy %} to {last_accuracy %}."
-- advice = "Train it longer before comparing accuracies; figures of speed are not affected."
-- [[report.findings]]
-- when = "target_ns is not null"
-- by = "-target_ns"
-- text = "The first to reach the target accuracy: {run}, in {target_ns}, after epoch {target_epoch}."
-- advice = "Another goal: `--target`."
-- ///
with epochs as materialized (
    select
        e.run, e.epoch, e.accuracy, e.measured_on, e.elapsed_ns,
        row_number() over before as place,
        count(*) over (partition by e.run) as epochs,
        (abs(e.accuracy - lag(e.accuracy) over before) < $eps)::integer as is_still
    from run_learning as e
    join cells as c on e.run = c.run
    where e.accuracy is not null and matches(c.run, $run) and matches(c.sweep, $sweep) and matches(c.model, $model)
    window before as (partition by e.run order by e.epoch)
),
watched as (
    select
        a.run, a.epoch, a.accuracy, a.elapsed_ns,
        count(*) filter (b.is_still = 1) as still_epochs
    from epochs as a
    join epochs as b on a.run = b.run and b.place > a.place and b.place <= a.place + $patience
    group by a.run, a.epoch, a.accuracy, a.elapsed_ns
),
converged as (
    select run, min_by({'epoch': epoch, 'accuracy': accuracy, 'elapsed_ns': elapsed_ns}, epoch) as at
    from watched
    where still_epochs = $patience
    group by run
),
ends as (
    select
        run,
        any_value(measured_on) as measured_on,
        any_value(epochs) as epochs,
        min_by(accuracy, epoch) as first_accuracy,
        max_by(accuracy, epoch) as last_accuracy,
        max_by({'epoch': epoch, 'accuracy': accuracy}, (accuracy, -epoch)) as best,
        min(epoch) filter (accuracy >= $target) as target_epoch,
        min_by(elapsed_ns, epoch) filter (accuracy >= $target) as target_ns,
        max(elapsed_ns) as total_ns
    from epochs
    group by run
)
select
    c.run, c.sweep, c.model,
    c.batch_size::bigint as batch_size,
    c.layout, c.variant,
    c.repeat::bigint as repeat,
    e.measured_on, e.epochs, e.first_accuracy, e.last_accuracy,
    e.best.accuracy as best_accuracy,
    e.best.epoch as best_epoch,
    e.target_epoch, e.target_ns,
    v.at.epoch as converged_epoch,
    v.at.accuracy as converged_accuracy,
    v.at.elapsed_ns as converged_ns,
    e.total_ns
from ends as e
join cells as c on e.run = c.run
left join converged as v on e.run = v.run
order by c.sweep, c.model, c.variant, c.batch_size, c.kind, c.processors, c.parallelism, c.repeat, c.run
