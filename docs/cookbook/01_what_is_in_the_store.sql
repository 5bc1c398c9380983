-- What is in the store?
-- Every file that was ingested has a row in `sources`. `complete` is false where something was lost; `diagnostics`
-- says what.
select run, count(*) as files, sum(events_kept)::bigint as events, bool_and(complete) as complete, any_value(clock) as clock
from sources
group by run
order by run
