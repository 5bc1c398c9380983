-- Memory events without the address of their block, or without the total after them.
-- A row is one run and rank. Without addresses memory_live lists no block; without totals the peak
-- lacks what was allocated before the recording.
-- /// check
-- title = "Memory events without addresses or totals"
-- severity = "info"
-- how_to_fix = "Record with the PyTorch profiler (1.10 or newer) and profile_memory=True: it records the address and the allocator's total of each event."
-- ///
select
    run,
    rank,
    count(*) filter (address is null or allocated_bytes is null) as count,
    format(
        'Of {}, {:,} without an address, and {:,} without the total allocated.',
        count_phrase(count(*), 'memory event', 'memory events'),
        count(*) filter (address is null), count(*) filter (allocated_bytes is null)
    ) as message
from memory_events
group by run, rank
having count(*) filter (address is null or allocated_bytes is null) > 0
order by run, rank
