-- Calls fall with the batch size and with the GPUs because iterations do: an epoch has fewer of them. Of one iteration
-- their number hardly changes.
-- /// study
-- title = "Number of calls"
-- study = "calls of ops of an epoch"
-- corrected = "calls of ops of a step"
-- fits = "ops and sweep is not null and batch_size is not null"
-- capture = "tracelab collect sweep S0"
-- example = ["generated/sweeps/generated-scaling", "smoke"]
-- chart = { kind = "line", x = "batch_size", by = "setting" }
-- [answers]
-- calls = { query = "sweep_calls" }
-- ///
select
    'calls of ops' as quantity,
    q.run,
    q.model,
    f.gpu as machine,
    q.batch_size,
    f.gpus,
    concat_ws(', ', q.layout, nullif(q.variant, '')) as setting,
    'count' as unit,
    coalesce(q.op_calls_per_epoch, q.op_calls) as study,
    q.op_calls_per_step as corrected
from calls as q join fitting as f using (run)
where q.op_calls is not null
order by q.model, q.batch_size, f.gpus, q.run;

with counted as (
    from cells where study > 0 and corrected > 0
),
changes as (
    select
        1 as place,
        'A larger batch makes' as what,
        'the batch size' as axis,
        at_most.study / at_least.study as of_epoch,
        at_most.corrected / at_least.corrected as of_step
    from line_ends('counted', 'fitting', 'batch_size')
    union all by name
    select
        2 as place,
        'More GPUs make' as what,
        'GPUs' as axis,
        at_most.study / at_least.study as of_epoch,
        at_most.corrected / at_least.corrected as of_step
    from line_ends('counted', 'fitting', 'gpus')
),
sentences as (
    select
        place,
        printf('%s %s times the calls of an epoch and %s times those of a step (%d line%s of cells that differ in %s alone)',
            what, format_range(min(of_epoch), max(of_epoch)), format_range(min(of_step), max(of_step)), count(*),
            case count(*) when 1 then '' else 's' end, axis) as change
    from changes
    group by place, what, axis
)
select coalesce(string_agg(change, '. ' order by place),
    'No two cells differ in the batch size alone, or in GPUs alone') || '.' as verdict from sentences
