-- At what time of day did a run happen?
-- Times are whole nanoseconds. If `sources.clock` is `unix`, they are an instant, which DuckDB prints with all nine digits.
select run, make_timestamp_ns(min(start_ns)) as first_op, make_timestamp_ns(max(end_ns)) as last_op
from ops
join sources using (run, source)
where clock = 'unix'
group by run
order by run
