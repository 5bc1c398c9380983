-- Runs whose threads waited for cores, which other programs or too many threads kept busy.
-- A row is one run that `tracelab collect` sampled, in which threads waited for a core for a quarter of the time in which they
-- could run, or more. Steps, ops and launches take longer by that.
-- /// check
-- title = "Threads wait for cores"
-- severity = "warning"
-- how_to_fix = "Record again on a machine without other jobs, with no more threads and loader workers than cores, and without a tight CPU limit of the container."
-- ///
select
    run,
    null::integer as rank,
    1 as count,
    format('On {}, {}: times include these waits.', host, sentence) as message
from host_load
where is_overloaded
order by run
