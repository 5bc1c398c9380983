-- How much faster one machine is than another, model by model and on average.
-- A row is one pair of cells that differ in nothing but the machine: the tag `machine` where the runs have it, else the GPU,
-- else the host; repeats are taken together. The base is --base-machine, else the first by name of those that have the cell.
-- Compared is the time of an epoch where both have a whole one, else that of a step (`compared`). Averages, over all pairs
-- of the same two machines, data set and kind of time, differ: `ratio_of_means_factor` weighs a model by its time,
-- `mean_of_ratios_factor` counts every model alike, and the time saved is less than either suggests: 1.25 times as fast is
-- 20 % less time. None of them includes a model that a machine failed to train; see its accuracy.
-- /// query
-- title = "Machine comparison"
-- needs = ["steps"]
-- show = ["model", "variant", "batch_size", "base_machine", "machine", "base_ns", "this_ns", "speedup_factor"]
-- chart = { kind = "bars", x = "model", y = ["base_ns", "this_ns"], labels = ["machine compared with[: {base_machine}]", "this machine[: {machine}]"], by = "dataset", panel = ["base_machine", "machine"] }
-- hints = [
--     { when = "lacks_machine_pairs($sweep, $model, $ignore)", text = "no two recordings differ in nothing but the machine; record the same settings on both, and name what else may differ by --ignore", empty = true },
-- ]
-- [params]
-- sweep = { example = "generated-machines" }
-- common = ["model"]
-- base_machine = { type = "text", about = "the machine that the others are compared with" }
-- ignore = "common"
-- [columns]
-- model = "common"
-- dataset = "The data set."
-- variant = "The other settings that differ within the sweep, of this machine's cell."
-- base_machine = "The machine compared with."
-- machine = "This machine."
-- compared = "epoch or step: the time that is compared."
-- base_ns = "Mean time on the machine compared with, rounded."
-- this_ns = "Mean time on this machine, rounded."
-- speedup_factor = "base_ns / this_ns."
-- saved_ns = "base_ns less this_ns."
-- saved_ratio = "saved_ns / base_ns."
-- pairs = "Pairs that the next figures average."
-- ratio_of_means_factor = "Sum of base_ns over the pairs / sum of this_ns."
-- mean_of_ratios_factor = "Mean of speedup_factor over the pairs."
-- mean_saved_ns = "Mean of saved_ns over the pairs, rounded."
-- mean_base_ns = "Mean of base_ns over the pairs, rounded."
-- mean_saved_ratio = "mean_saved_ns / mean_base_ns."
-- base_accuracy = "Accuracy after the last epoch on the machine compared with."
-- accuracy = "Accuracy after the last epoch on this machine."
-- base_used_bytes = "The most in use on one card of the machine compared with."
-- base_total_bytes = "Memory of that card."
-- base_used_ratio = "base_used_bytes / base_total_bytes."
-- used_bytes = "The most in use on one card of this machine."
-- total_bytes = "Memory of that card."
-- used_ratio = "used_bytes / total_bytes."
-- common = ["batch_size", "layout"]
-- base_run = "The run on the machine compared with."
-- this_run = "The run on this machine."
-- [report]
-- section = "sweeps"
-- order = 13
-- needs = ["steps"]
-- unknown = "How the machines compare is not known: no two cells that differ in the machine alone have a time of a step or an epoch."
-- [[report.findings]]
-- when = "saved_ns > 0"
-- by = "saved_ratio"
-- text = "{machine} against {base_machine}[: {model}] takes {this_ns} instead of {base_ns}, which saves {saved_ns of base_ns}; that is a speed-up of {speedup_factor}, not of 1 plus the saving."
-- advice = "Compare what the machines cost, too: a speed-up is worth it where it is more than the factor of the price."
-- [[report.findings]]
-- when = "saved_ns <= 0"
-- by = "-saved_ratio"
-- text = "{machine} against {base_machine}[: {model}] takes {this_ns}, and there {base_ns}: it saves nothing."
-- advice = "See the sections above, one run at a time, for where the time goes on the slower one."
-- ///
with lasts as (
    select run, max_by(accuracy, epoch) filter (accuracy is not null) as accuracy from run_learning group by run
),
measured_runs as (
    select
        c.run, c.model, c.dataset, c.batch_size, c.layout, c.kind, c.processors, c.parallelism, c.variant,
        coalesce(c.settings['machine'], c.gpu, c.host) as machine,
        settings_except(
            c.settings, ['machine', 'gpu'] || string_split(replace(coalesce($ignore, ''), ' ', ''), ',')
        ) as alike,
        s.epoch_ns, s.step_ns, a.accuracy, m.used_bytes, m.total_bytes
    from cells as c
    join run_speeds as s on c.run = s.run
    left join lasts as a on c.run = a.run
    left join run_memory as m on c.run = m.run
    where c.trained and s.step_ns is not null and matches(c.sweep, $sweep) and matches(c.model, $model)
),
machines as materialized (
    select
        alike, machine,
        min(run) as run,
        any_value(model) as model,
        any_value(dataset) as dataset,
        any_value(batch_size) as batch_size,
        any_value(layout) as layout,
        any_value(variant) as variant,
        avg(epoch_ns) as epoch_ns,
        avg(step_ns) as step_ns,
        avg(accuracy) as accuracy,
        max(used_bytes) as used_bytes,
        max(total_bytes) as total_bytes
    from measured_runs
    where machine is not null
    group by alike, machine
),
chosen as (
    select alike, coalesce($base_machine, min(machine)) as machine from machines group by alike
),
paired as (
    select
        c.*,
        b.machine as base_machine, b.run as base_run, b.accuracy as base_accuracy, b.used_bytes as base_used_bytes,
        b.total_bytes as base_total_bytes,
        case when b.epoch_ns is not null and c.epoch_ns is not null then 'epoch' else 'step' end as compared,
        as_bigint(round(case compared when 'epoch' then b.epoch_ns else b.step_ns end)) as base_ns,
        as_bigint(round(case compared when 'epoch' then c.epoch_ns else c.step_ns end)) as this_ns
    from machines as c
    join chosen as o using (alike)
    join machines as b on o.alike = b.alike and o.machine = b.machine
    where c.machine <> b.machine
)
select
    model, dataset, variant, base_machine, machine, compared, base_ns, this_ns,
    base_ns / nullif(this_ns, 0) as speedup_factor,
    base_ns - this_ns as saved_ns,
    (base_ns - this_ns) / nullif(base_ns, 0) as saved_ratio,
    count(*) over alike as pairs,
    sum(base_ns) over alike / nullif(sum(this_ns) over alike, 0) as ratio_of_means_factor,
    avg(base_ns / nullif(this_ns, 0)) over alike as mean_of_ratios_factor,
    as_bigint(round(avg(base_ns - this_ns) over alike)) as mean_saved_ns,
    as_bigint(round(avg(base_ns) over alike)) as mean_base_ns,
    avg(base_ns - this_ns) over alike / nullif(avg(base_ns) over alike, 0) as mean_saved_ratio,
    base_accuracy, accuracy, base_used_bytes, base_total_bytes,
    base_used_bytes / nullif(base_total_bytes, 0) as base_used_ratio,
    used_bytes, total_bytes,
    used_bytes / nullif(total_bytes, 0) as used_ratio,
    batch_size::bigint as batch_size,
    layout, base_run,
    run as this_run
from paired
window alike as (partition by base_machine, machine, dataset, compared)
order by dataset, model, machine, batch_size, layout, this_run
