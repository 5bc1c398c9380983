-- The metric's name in the study's script has one letter less and no roll-up. A collector must refuse it before the run
-- and suggest the nearest known name; `tracelab collect train --profiler ncu --metrics …` does.
-- /// study
-- title = "The metric's name"
-- study = "launches that hold the metric as it is spelled"
-- corrected = "launches that hold the metric whose name is nearest"
-- fits = "kernel_metrics"
-- capture = "tracelab collect sweep S2 --match '*profiler-ncu*'"
-- example = ["generated/ncu-forward"]
-- ///
with wanted as (
    select claim as name, place from published
),
known as (
    select m.run, m.metric, count(distinct m.launch) as launches
    from kernel_metrics as m
    where m.run in (select run from fitting)
    group by all
),
ranked as (
    select
        k.run, w.name, w.place, k.metric, k.launches, levenshtein(w.name,
            regexp_replace(k.metric, '\.(sum|avg|min|max)$', '')) as distance,
        sum(case when k.metric = w.name then k.launches else 0 end) over (partition by k.run) as exact
    from known as k
    cross join wanted as w
    qualify row_number() over (partition by k.run order by distance, k.metric) = 1
)
select
    'launches' as quantity,
    run,
    metric as setting,
    'count' as unit,
    exact as study,
    launches as corrected,
    name as claim,
    place
from ranked
order by run;

select
    printf('No launch of %d runs holds %s; the nearest name, %s, is in %d launches.', count(*) filter (study = 0),
        any_value(claim), any_value(setting), sum(corrected)::bigint) as verdict
from cells
