-- What is counted beside the events. A row is one value from one instant on: of a device (place 'gpu') or a process.

create or replace temp view sampled_kernels as
select k.run, k.source, k.rank, k.device, k.start_ns, k.end_ns
from kernels as k
join exported as e using (run, source)
where shown(k.start_ns, k.end_ns, e.from_ns, e.to_ns) and (e.ranks is null or list_contains(e.ranks, k.rank));

create or replace temp view sampled_copies as  -- bytes a second as whole numbers, so that what is added is taken away exactly
select
    m.run, m.source, m.rank, m.device, m.start_ns, m.end_ns, coalesce(m.direction, 'unknown') as part,
    m.size_bytes::hugeint * 1000000000 // m.dur_ns as bytes_per_s
from memcpys as m
join exported as e using (run, source)
where shown(m.start_ns, m.end_ns, e.from_ns, e.to_ns) and (e.ranks is null or list_contains(e.ranks, m.rank))
    and m.size_bytes is not null and m.dur_ns > 0;

create or replace temp view sampled_memory as
select
    m.id, m.run, m.source, m.rank, m.pid, m.device, m.time_ns, m.size_bytes, m.allocated_bytes, m.reserved_bytes
from (select row_number() over () as id, * from memory_events) as m
join exported as e using (run, source)
where e.ranks is null or list_contains(e.ranks, m.rank);

create or replace temp view copy_rates as
with _lanes as materialized (
    from lanes('sampled_copies')
),
_rows as (
    select lane, start_ns, end_ns, bytes_per_s from with_lane('sampled_copies', '_lanes')
),
_events as (
    select lane, start_ns as at_ns, bytes_per_s as step from _rows
    union all
    select lane, end_ns, -bytes_per_s from _rows
)
select l.run, l.source, l.rank, l.device, l.part as direction, s.start_ns, s.end_ns, s.depth as bytes_per_s
from running_depth('_events') as s
join _lanes as l using (lane);

create or replace temp view samples as
with _depths as (  -- the running number, and 0 where it ends
    select run, source, rank, device, start_ns as at_ns, depth from depth('sampled_kernels')
    union all
    select run, source, rank, device, max(end_ns), 0 from depth('sampled_kernels') group by run, source, rank, device
),
_rates as (
    select run, source, rank, device, direction, start_ns as at_ns, bytes_per_s from copy_rates
    union all
    select run, source, rank, device, direction, max(end_ns), 0 from copy_rates group by run, source, rank, device, direction
),
_memory as (  -- of the events of one instant the last
    select
        run, source, rank, pid, device, time_ns as at_ns,
        last(allocated_bytes order by id) as allocated_bytes,
        last(reserved_bytes order by id) as reserved_bytes
    from memory_totals('sampled_memory')
    group by run, source, rank, pid, device, time_ns
),
_all as (
    select
        run, source, rank, true as of_gpu, null::bigint as pid, device, at_ns, 'kernels in flight' as name, 'kernels' as key,
        depth::varchar as value
    from _depths
    union all
    select run, source, rank, true, null, device, at_ns, 'copy ' || direction, 'GB/s', (bytes_per_s / 1e9)::varchar
    from _rates
    union all
    select run, source, rank, false, pid, device, at_ns, 'memory', key, bytes::varchar
    from _memory, lateral (
        values ('allocated bytes', allocated_bytes), ('reserved bytes', reserved_bytes)
    ) as series (key, bytes)
    union all
    select run, source, rank, false, pid, device, time_ns, name, coalesce(unit, 'value'), value::varchar
    from counters
    where isfinite(value)
    union all
    select run, source, rank, false, pid, device, time_ns, name, key, value::varchar
    from host_samples, lateral (
        values
            (case when device is null then 'host memory' else 'card memory' end, 'used bytes', used_bytes::double),
            ('utilization', '%', 100 * util_ratio),
            ('power', 'W', power_w),
            ('multiprocessor clock', 'MHz', sm_clock_hz / 1e6),
            ('memory clock', 'MHz', memory_clock_hz / 1e6),
            ('temperature', '°C', temperature_c),
            ('process memory', 'resident bytes', rss_bytes::double)
    ) as series (name, key, value)
    where isfinite(value)
)
select
    run, source, rank,
    case when of_gpu or device is not null then 'gpu' else 'cpu' end as place,
    pid, device, at_ns, name, key, value
from _all;

-- shown_samples: those in the time and of the ranks asked for, on the clock that is exported.
create or replace temp view shown_samples as
select s.* exclude (at_ns), s.at_ns + e.shift_ns as at_ns
from samples as s
join exported as e using (run, source)
where s.value is not null and s.at_ns >= e.from_ns and s.at_ns <= e.to_ns
    and (e.ranks is null or list_contains(e.ranks, s.rank));

-- sample_texts: these counter by counter, each as the JSON of its event. Here as for events the order is settled to the last
-- tie, so that an export is the same bytes each time: ingested twice it is one source.
create or replace temp view sample_texts as
select
    '{"pid":' || n.number || ',"ph":"C","name":' || to_json(s.name)::varchar || ',"ts":' || as_us(s.at_ns)
    || ',"args":{' || to_json(s.key)::varchar || ':' || s.value || '}},' || chr(10) as text
from shown_samples as s
join numbered as n
    on s.run = n.run and s.rank = n.rank and s.place = n.place
    and n.part is not distinct from case when s.place = 'gpu' then s.device else s.pid end
order by n.number, s.name, s.key, s.at_ns, s.value;
