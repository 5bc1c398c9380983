-- A run that did not end as it should have.
-- A row is one run whose description says a status other than ok.
-- /// check
-- title = "The run failed"
-- severity = "warning"
-- how_to_fix = "Read its figures as those of a run that ended early, or run it again."
-- ///
select
    run,
    null::integer as rank,
    1 as count,
    format('The run ended with status {}{}.', status, coalesce(': ' || rtrim(error, '. '), '')) as message
from runs
where status <> 'ok'
order by run
