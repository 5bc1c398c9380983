-- The study adds up the third column of every line with the word sum. awk prints whole numbers in full and others with
-- six digits, takes 1,234,567 for 1, and would add up any other line with that word, a kernel's name too.
-- /// study
-- title = "The script that adds up"
-- study = "awk '{ n += $3 } END { print n / 256 }'"
-- corrected = "sum(FADD) / images, exact"
-- fits = "kernel_metrics and batch_size is not null"
-- capture = "tracelab collect sweep S2 --match '*profiler-ncu*'"
-- example = ["generated/ncu-forward"]
-- chart = { x = "model", log = true }
-- ///
with counts as (
    select m.run, f.model, f.batch_size, m.value
    from kernel_metrics as m
    join fitting as f using (run)
    where m.metric = 'smsp__sass_thread_inst_executed_op_fadd_pred_on.sum' and m.instance is null
),
sums as (
    select
        run, model, batch_size,
        sum(value) as exact,
        sum(try_cast(split_part(printf('%,d', value::bigint), ',', 1) as double)) as before_the_comma
    from counts
    group by all
)
select
    'as awk prints it' as quantity,
    s.run,
    s.model,
    s.batch_size,
    'flop' as unit,
    p.value as published,
    case
        when s.exact % s.batch_size = 0 then s.exact / s.batch_size
        else printf('%.6g', s.exact / s.batch_size)::double
    end as study,
    s.exact / s.batch_size as corrected,
    p.place
from sums as s
left join published as p using (model)
union all by name
select
    'thousands separators' as quantity,
    s.run,
    s.model,
    s.batch_size,
    'flop' as unit,
    printf('%.6g', s.before_the_comma / s.batch_size)::double as study,
    s.exact / s.batch_size as corrected
from sums as s
order by all;

select printf(
    'Printed figures are off by at most %.2g; where ncu prints separators, awk adds up %.2g %% of the sum at most.',
    max(abs(study / corrected - 1)) filter (quantity = 'as awk prints it'),
    100 * max(study / corrected) filter (quantity = 'thousands separators')) as verdict
from cells
