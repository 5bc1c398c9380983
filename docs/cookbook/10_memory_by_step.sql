-- What is the peak of allocated memory in each step?
-- For each event, `asof join` finds the last step that started before it.
with steps_seen as (
    select run, source, name as step, start_ns from annotations where scope = 'cpu' and starts_with(name, 'ProfilerStep')
)
select memory_events.run, step, max(allocated_bytes) as peak_allocated_bytes
from memory_events
asof join steps_seen
    on memory_events.run = steps_seen.run and memory_events.source = steps_seen.source
    and memory_events.time_ns >= steps_seen.start_ns
where device is null
group by memory_events.run, step
order by memory_events.run, step
