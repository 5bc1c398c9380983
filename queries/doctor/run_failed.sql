-- Runs that did not end well.
-- A row is one run whose description has a status other than ok.
-- /// check
-- title = "The run failed"
-- severity = "warning"
-- how_to_fix = "Run it again, or treat its figures as those of a run that ended early."
-- ///
select
    run,
    null::integer as rank,
    1 as count,
    format('The run ended with status {}{}.', status, coalesce(': ' || rtrim(error, '. '), '')) as message
from runs
where status <> 'ok'
order by run
