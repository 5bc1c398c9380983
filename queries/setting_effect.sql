-- Effect of one setting: pairs of cells that differ only in it.
-- A row is one pair, repeats taken together: the cell with the setting's base value, and one with another. The base is
-- --base-value, else false, none, fp32 or sgd, else the smallest number, else the first text. A setting is a column of
-- `runs` (pin_memory, workers, precision, optimizer, learning_rate, parallelism, pretrained, batch_size …) or a tag. The
-- factor is one of samples a second; `ratio_of_means_factor` and `mean_of_ratios_factor` take all `pairs` of the same two
-- values together. Copies from the host are those of the kind of memory that most bytes came from: what pinning changes is
-- the rate of copies, and a run that does not wait for them does not get faster by it. Waiting for the loader is what
-- workers change. A parallelism in which each process has a batch of its own has more samples in a step.
-- /// query
-- title = "Effect of one setting"
-- needs = ["steps"]
-- show = ["model", "batch_size", "layout", "base_value", "value", "base_step_ns", "step_ns", "step_factor"]
-- chart = { kind = "bars", x = "model", y = ["base_step_ns", "step_ns"], labels = ["a step at the base value", "at this value"], by = "change" }
-- hints = [
--     { when = "lacks_setting_pairs($sweep, $model, $setting, $ignore)", text = "no two recordings differ in nothing but this setting; record a sweep over it, or name another one by --setting, and what else may differ by --ignore", empty = true },
-- ]
-- [params]
-- sweep = { example = "generated-settings" }
-- common = ["model"]
-- setting = { default = "pin_memory", about = "the setting in which the two differ: a column of runs, or a tag" }
-- base_value = { type = "text", about = "the value that the others are compared with" }
-- ignore = "common"
-- [columns]
-- sweep = "The sweep."
-- common = ["model", "batch_size", "layout", "variant"]
-- setting = "The setting."
-- base_value = "Its value in the cell compared with."
-- value = "Its value in this cell."
-- base_samples_per_s = "Samples a second of the cell compared with."
-- samples_per_s = "Samples a second of this cell."
-- speedup_factor = "common"
-- base_step_ns = "Mean duration of a training step there, rounded."
-- step_ns = "Mean duration of a training step here, rounded."
-- step_factor = "step_ns / base_step_ns."
-- pairs = "Pairs of these two values, which the next two average."
-- ratio_of_means_factor = "Sum of base_step_ns over the pairs / sum of step_ns."
-- mean_of_ratios_factor = "Mean over the pairs of base_step_ns / step_ns."
-- base_h2d_memory = "Kind of memory from which most bytes were copied to the GPU there."
-- base_h2d_gb_per_s = "Bytes of these copies / their durations there, in 1e9 bytes a second."
-- h2d_memory = "Kind of memory from which most bytes were copied to the GPU here."
-- h2d_gb_per_s = "Bytes of these copies / their durations here, in 1e9 bytes a second."
-- base_data_wait_ns = "Time that the steps waited for the loader there."
-- base_train_sum_ns = "Durations of the training steps there, added up over ranks."
-- base_data_wait_ratio = "base_data_wait_ns / base_train_sum_ns."
-- data_wait_ns = "Time that the steps waited for the loader here."
-- train_sum_ns = "Durations of the training steps here, added up over ranks."
-- data_wait_ratio = "common"
-- base_best_accuracy = "The best accuracy there."
-- best_accuracy = "The best accuracy here."
-- base_allocated_bytes = "The most that one device had allocated there."
-- allocated_bytes = "The most that one device had allocated here."
-- base_run = "common"
-- this_run = "The run of this cell."
-- change = "The setting and its two values."
-- [report]
-- section = "sweeps"
-- order = 12
-- needs = ["steps"]
-- show_if = "common"
-- unknown = "What a setting changes is not known: no two cells that differ in one setting only both have a speed."
-- [[report.findings]]
-- when = "speedup_factor > 0"
-- by = "speedup_factor"
-- each = "setting"
-- most = 4
-- text = "{setting} = {value}[ instead of {base_value}] changes the speed[ of {model}] by a factor of {speedup_factor}, over {pairs} pairs of cells that differ only in it."
-- advice = "A factor above 1 is worth having where accuracy and memory, in the same row, do not suffer."
-- ///
with selected as (
    from cell_speeds where matches(sweep, $sweep) and matches(model, $model)
),
pairs as materialized (from paired_cells('selected', $setting, $base_value, $ignore)),
copies as (
    select
        run, src_memory,
        sum(size_bytes) as size_bytes,
        sum(size_bytes) / nullif(sum(dur_ns), 0) as gb_per_s
    from memcpys
    where direction = 'HtoD' and has_valid_interval(start_ns, end_ns) and size_bytes is not null
    group by run, src_memory
),
main_copies as (
    select run, arg_max({'memory': src_memory, 'gb_per_s': gb_per_s}, (size_bytes, src_memory)) as main from copies group by run
),
best as (
    select run, max(accuracy) as best_accuracy from run_learning group by run
),
facts as (
    select
        r.run, k.main.memory as h2d_memory, k.main.gb_per_s as h2d_gb_per_s, a.best_accuracy, m.allocated_bytes
    from (select run from pairs union select base_run from pairs) as r
    left join main_copies as k on r.run = k.run
    left join best as a on r.run = a.run
    left join run_memory as m on r.run = m.run
),
paired as (
    select
        p.*,
        c.h2d_memory, c.h2d_gb_per_s, c.best_accuracy, c.allocated_bytes,
        b.h2d_memory as base_h2d_memory, b.h2d_gb_per_s as base_h2d_gb_per_s,
        b.best_accuracy as base_best_accuracy, b.allocated_bytes as base_allocated_bytes
    from pairs as p
    join facts as c on p.run = c.run
    join facts as b on p.base_run = b.run
)
select
    sweep, model,
    batch_size::bigint as batch_size,
    layout, variant,
    $setting as setting,
    base_value, value, base_samples_per_s, samples_per_s,
    samples_per_s / nullif(base_samples_per_s, 0) as speedup_factor,
    base_step_ns, step_ns,
    step_ns / nullif(base_step_ns, 0) as step_factor,
    count(*) over alike as pairs,
    sum(base_step_ns) over alike / nullif(sum(step_ns) over alike, 0) as ratio_of_means_factor,
    avg(base_step_ns / nullif(step_ns, 0)) over alike as mean_of_ratios_factor,
    base_h2d_memory, base_h2d_gb_per_s, h2d_memory, h2d_gb_per_s,
    base_data_wait_ns, base_train_sum_ns,
    base_data_wait_ns / nullif(base_train_sum_ns, 0) as base_data_wait_ratio,
    data_wait_ns, train_sum_ns,
    data_wait_ns / nullif(train_sum_ns, 0) as data_wait_ratio,
    base_best_accuracy, best_accuracy, base_allocated_bytes, allocated_bytes, base_run,
    run as this_run,
    $setting || ' ' || base_value || ' → ' || value as change
from paired
window alike as (partition by sweep, base_value, value)
order by sweep, model, variant, batch_size, kind, processors, parallelism, try_cast(value as double), value, this_run
