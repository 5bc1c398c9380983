-- How much memory the framework's allocator holds over time, on each device and on the host.
-- A row is one run, rank, device and slice of time: the event of that slice after which the most was allocated. The
-- recording is cut into `slices` of equal length; 0 means a row for every event. Allocated is what tensors use, reserved
-- what the allocator took from the device. What other libraries allocate (NCCL, cuDNN, the CUDA context) is in neither.
-- Where the source wrote no totals down, `allocated_bytes` are the sizes added up since the first event: what was allocated
-- before is missing (`counted_from`). So it is of a host's memory, which PyTorch counts since its profiler first recorded
-- it.
-- /// query
-- title = "Memory over time"
-- needs = ["memory_events"]
-- show = ["run", "rank", "device", "at_ns", "allocated_bytes", "reserved_bytes", "least_allocated_bytes", "events"]
-- chart = { kind = "steps", x = "at_ns", y = ["allocated_bytes", "reserved_bytes"], by = "run", host = true }
-- [params]
-- common = ["run", "rank", "device"]
-- slices = { default = 200, about = "slices of time; 0: every event" }
-- [columns]
-- common = ["run", "rank", "device", "at_ns"]
-- allocated_bytes = "Allocated after that event."
-- reserved_bytes = "Reserved by the allocator after that event; NULL where the source does not record it."
-- least_allocated_bytes = "The least that was allocated after an event of the slice."
-- events = "Allocations and releases in the slice."
-- time_ns = "common"
-- pid = "The process."
-- counted_from = "common"
-- [report]
-- section = "memory"
-- order = 2
-- ok_text = "Memory does not jump: within no slice of time does it change by more than a quarter of its peak."
-- unknown = "How memory changes is not known: nothing was allocated."
-- [[report.findings]]
-- when = "allocated_bytes - least_allocated_bytes > 0.25 * nullif(max(allocated_bytes) over (partition by run, rank, device), 0)"
-- by = "allocated_bytes - least_allocated_bytes"
-- text = "[{where}: ]at {at_ns} memory jumps between {least_allocated_bytes} and {allocated_bytes} within one slice of time."
-- advice = "What is allocated and released at once makes the peak: smaller batches or pieces, operations in place, or checkpointing of that part lower it."
-- ///
with selected as materialized (
    select row_number() over () as id, run, source, rank, pid, device, time_ns, size_bytes, allocated_bytes, reserved_bytes
    from memory_events
    where matches(run, $run) and matches(rank, $rank) and matches(device, $device)
),
totals as materialized (
    from memory_totals('selected')
),
spans as (
    select run, source, max(at_ns)::hugeint + 1 as span_ns from totals group by run, source
),
sliced as (
    select
        t.*,
        case when $slices > 0 then at_ns::hugeint * $slices // s.span_ns else t.id end as slice
    from totals as t
    join spans as s on t.run = s.run and t.source = s.source
)
select
    run, rank, device,
    max_by(at_ns, (coalesce(allocated_bytes, 0), -id)) as at_ns,
    max(allocated_bytes) as allocated_bytes,
    max_by(reserved_bytes, (coalesce(allocated_bytes, 0), -id)) as reserved_bytes,
    min(allocated_bytes) as least_allocated_bytes,
    count(*) as events,
    max_by(time_ns, (coalesce(allocated_bytes, 0), -id)) as time_ns,
    pid, counted_from
from sliced
group by run, source, rank, pid, device, counted_from, slice
order by run, rank, device, pid, time_ns, min(id)
