-- When was that, by the clock?
-- Times are whole nanoseconds; where `sources.clock` is `unix` they are an instant, which DuckDB shows with all nine
-- digits.
select run, make_timestamp_ns(min(start_ns)) as first_op, make_timestamp_ns(max(end_ns)) as last_op
from ops
join sources using (run, source)
where clock = 'unix'
group by run
order by run
