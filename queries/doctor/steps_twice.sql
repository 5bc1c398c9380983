-- Steps that are recorded more than once.
-- A row is one run and rank with several rows of one phase, epoch and step, or several ranges of one ProfilerStep.
-- Figures by step count them several times.
-- /// check
-- title = "Steps recorded twice"
-- severity = "warning"
-- how_to_fix = "Ingest each file of steps once, and ingest a repeated execution with a separate --run."
-- ///
with seen as (
    select
        run,
        rank,
        coalesce(phase, 'step') || format(' {}', step) || coalesce(format(', epoch {}', epoch), '') as what,
        count(*) as times
    from steps
    where step is not null
    group by run, rank, phase, epoch, step
    union all
    select run, rank, name, count(*)
    from annotations
    where scope = 'cpu' and name similar to 'ProfilerStep#[0-9]+'
    group by run, rank, tid, name
)
select
    run,
    rank,
    count(*) as count,
    format(
        '{} more than once: {}, {} times.',
        count_phrase(count(*), 'step is recorded', 'steps are recorded'), arg_max(what, (times, what)), max(times)
    ) as message
from seen
where times > 1
group by run, rank
order by run, rank
