-- What is in the store?
-- `sources` has a row for every ingested file. `complete` is false if something was lost; `diagnostics` explains it.
select run, count(*) as files, sum(events_kept)::bigint as events, bool_and(complete) as complete, any_value(clock) as clock
from sources
group by run
order by run
