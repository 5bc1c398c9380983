-- Memory events without the address of their block, or without the total after them.
-- A row is one run and rank. Without addresses no block is known to be live at the peak (memory_live); without totals what
-- was allocated before the recording is missing from the peak.
-- /// check
-- title = "Memory events without addresses or totals"
-- severity = "info"
-- how_to_fix = "Record with the PyTorch profiler (1.10 or newer) and profile_memory=True: it notes the address, and the allocator's total, of each event."
-- ///
select
    run,
    rank,
    count(*) filter (address is null or allocated_bytes is null) as count,
    format(
        'Of {}, {:,} without an address, and {:,} without the total of what is allocated.',
        count_phrase(count(*), 'memory event', 'memory events'),
        count(*) filter (address is null), count(*) filter (allocated_bytes is null)
    ) as message
from memory_events
group by run, rank
having count(*) filter (address is null or allocated_bytes is null) > 0
order by run, rank
