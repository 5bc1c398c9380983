-- memory_totals(relation): the events of a relation of memory_events (id, run, source, rank, pid, device, time_ns,
-- size_bytes, allocated_bytes, reserved_bytes), each with what is allocated after it, and `counted_from`: `totals` where
-- the source wrote it down with every event of that process and device, else `sizes`, the signed sizes added up since the
-- first event, so that what was allocated before is missing. It is missing from totals of a host, too: PyTorch counts them
-- from when its profiler first recorded memory in the process, so they are of the `start`. Sizes of one instant are added up
-- together, for their order is not known. `at_ns` counts from the first event of the source.
create or replace macro memory_totals(relation) as table
with _heads as materialized (
    select
        (row_number() over (order by run, source, rank, pid, device))::integer as head,
        run, source, rank, pid, device, has_totals
    from (
        select run, source, rank, pid, device, count(*) = count(allocated_bytes) as has_totals
        from query_table(relation)
        where time_ns is not null
        group by run, source, rank, pid, device
    )
),
_events as (
    select h.head, h.has_totals, e.*
    from query_table(relation) as e
    join _heads as h
        on e.run = h.run and e.source = h.source and e.rank = h.rank
        and e.pid is not distinct from h.pid and e.device is not distinct from h.device
    where e.time_ns is not null
),
_running as (
    select head, time_ns, sum(size_bytes) over (partition by head order by time_ns) as since_bytes
    from (select head, time_ns, sum(size_bytes) as size_bytes from _events where not has_totals group by head, time_ns)
),
_firsts as (
    select run, source, min(time_ns) as first_ns from query_table(relation) group by run, source
)
select
    e.id, e.run, e.source, e.rank, e.pid, e.device, e.time_ns,
    try(e.time_ns - f.first_ns) as at_ns,
    case when e.has_totals then e.allocated_bytes else as_bigint(r.since_bytes) end as allocated_bytes,
    e.reserved_bytes,
    case when not e.has_totals then 'sizes' when e.device is null then 'start' else 'totals' end as counted_from
from _events as e
join _firsts as f on e.run = f.run and e.source = f.source
left join _running as r on e.head = r.head and e.time_ns = r.time_ns;

-- memory_peaks_of(relation): the peak of each run, rank and device of a relation as memory_totals() takes it, with address:
-- the first event after which the most was allocated. Where several processes or sources share a rank and a device it is
-- that of the highest one.
create or replace macro memory_peaks_of(relation) as table
with _processes as (
    select
        run, source, rank, pid, device, counted_from,
        max({'allocated_bytes': allocated_bytes, 'sooner_ns': -at_ns, 'earlier': -id}) as peak,
        max(reserved_bytes) as peak_reserved_bytes,
        count(*) as events
    from memory_totals(relation)
    where allocated_bytes is not null and at_ns is not null
    group by run, source, rank, pid, device, counted_from
),
_highest as (
    select
        *,
        row_number() over (partition by run, rank, device order by peak.allocated_bytes desc, source, pid) as place
    from _processes
)
select
    e.id, h.run, h.source, h.rank, h.pid, h.device, h.counted_from, h.events, h.peak_reserved_bytes,
    h.peak.allocated_bytes as peak_bytes,
    -h.peak.sooner_ns as at_ns,
    e.time_ns, e.reserved_bytes,
    e.address is not null as has_addresses
from _highest as h
join query_table(relation) as e on -h.peak.earlier = e.id
where h.place = 1;

-- live_at_peaks(relation, peaks): the blocks of a relation of memory_events that were live at a peak of memory_peaks_of().
-- A row is the allocation of one block: of the events of its address up to the peak the last one is no release. Without
-- totals the peak is that after all events of its instant, so they all count.
create or replace macro live_at_peaks(relation, peaks) as table
select
    p.run, p.rank, p.device,
    max_by(e.id, (e.time_ns, e.id)) as id,
    max_by(e.size_bytes, (e.time_ns, e.id)) as size_bytes
from query_table(relation) as e
join query_table(peaks) as p
    on e.run = p.run and e.source = p.source and e.rank = p.rank
    and e.pid is not distinct from p.pid and e.device is not distinct from p.device
where e.address is not null
    and (e.time_ns < p.time_ns or (e.time_ns = p.time_ns and (e.id <= p.id or p.counted_from = 'sizes')))
group by p.run, p.rank, p.device, e.address
having max_by(e.size_bytes, (e.time_ns, e.id)) > 0;
