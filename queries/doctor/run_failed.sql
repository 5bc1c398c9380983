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
    case
        when status = 'not_run'
            then 'The run has no end: it still recorded when it was read, never began, or was killed.'
        else format('The run ended with status {}{}.', status, coalesce(': ' || rtrim(error, '. '), ''))
    end as message,
    case
        when status = 'not_run' then 'Ingest its folder again after it has ended, on its machine if it was killed.'
    end as how_to_fix
from runs
where status <> 'ok'
order by run
