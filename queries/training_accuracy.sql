-- Accuracy of each run after each epoch.
-- A row is one run and epoch, the samples of all ranks counted alike. Accuracy and loss are those of validation where the
-- run measured it, else of the training steps, in which the model still changes (`measured_on`). `elapsed_ns` counts from
-- the start of the first epoch and holds the validations; warm-up and start-up it does not. An epoch whose `state` is
-- cut_off, by a limit of time or a crash, has no accuracy, for there was no end to measure at. When a run was as good as it
-- got, when it reached a goal and when it converged: see training_convergence.
-- /// query
-- title = "Accuracy by epoch"
-- needs = ["steps"]
-- show = ["run", "model", "batch_size", "epoch", "accuracy", "loss", "measured_on", "elapsed_ns"]
-- chart = { kind = "curves", x = "epoch", y = ["accuracy", "loss"], by = "variant", panel = ["model"] }
-- [params]
-- common = ["run"]
-- sweep = { example = "generated-training" }
-- model = "common"
-- [columns]
-- common = ["run", "sweep", "model", "batch_size", "layout", "variant", "repeat"]
-- epoch = "The epoch, from 0."
-- accuracy = "Accuracy, 0 to 1."
-- loss = "Loss."
-- measured_on = "common"
-- samples = "Samples that it was measured on."
-- best_accuracy = "The best accuracy until then."
-- accuracy_change = "accuracy less that of the epoch before."
-- elapsed_ns = "Start of the first epoch to the end of this one."
-- epoch_ns = "Duration of the epoch on its slowest rank, without validation."
-- training_accuracy = "Accuracy over the training steps."
-- training_loss = "Loss over the training steps."
-- state = "finished, or cut_off."
-- [report]
-- section = "training"
-- order = 1
-- needs = ["steps"]
-- unknown = "How good the runs got is not known: no epoch has an accuracy. Record with `tracelab collect train`."
-- [[report.findings]]
-- when = "accuracy is not null"
-- by = "accuracy"
-- text = "The best accuracy: {run} with {accuracy %} after epoch {epoch}[, measured on {measured_on}][; {elapsed_ns} from the start]."
-- advice = "See below how long each run took, and whether it is better than guessing."
-- [[report.findings]]
-- when = "measured_on = 'validation' and training_accuracy - accuracy > 0.1"
-- by = "training_accuracy - accuracy"
-- text = "{run}: after epoch {epoch} the accuracy is {training_accuracy %} in training and {accuracy %} in validation, so it overfits."
-- advice = "More data, augmentation, or regularization; training longer does not help."
-- ///
select
    c.run, c.sweep, c.model,
    c.batch_size::bigint as batch_size,
    c.layout, c.variant,
    c.repeat::bigint as repeat,
    e.epoch, e.accuracy, e.loss, e.measured_on, e.samples,
    max(e.accuracy) over epochs as best_accuracy,
    e.accuracy - lag(e.accuracy) over epochs as accuracy_change,
    e.elapsed_ns, e.epoch_ns, e.training_accuracy, e.training_loss,
    case when e.finished then 'finished' else 'cut_off' end as state
from run_learning as e
join cells as c on e.run = c.run
where matches(c.run, $run) and matches(c.sweep, $sweep) and matches(c.model, $model)
window epochs as (partition by e.run order by e.epoch)
order by c.sweep, c.model, c.variant, c.batch_size, c.kind, c.processors, c.parallelism, c.repeat, c.run, e.epoch
