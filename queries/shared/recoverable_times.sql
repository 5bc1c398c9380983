-- The exposed time of communication and copies on each device, and the part of it after which no work waits for its launch before
-- the CPU side waits for the device: as recoverable_exposure defines them. Of a wanted rank, or of all.
-- /// of one query
with activity as not materialized (  -- each use reads only its own kinds and columns
    select run, source, rank, pid, device, stream, kind, start_ns, end_ns, correlation
    from gpu_activity
    where matches(run, $run) and matches(rank, $rank)
),
executions as not materialized (
    select run, source, rank, pid, device, stream, name, start_ns, end_ns, dur_ns, correlation
    from kernels
    where matches(run, $run) and matches(rank, $rank)
),
calls as not materialized (
    select run, source, pid, tid, correlation, name, start_ns, end_ns
    from api_calls
    where api in ('runtime', 'driver') and matches(run, $run) and matches(rank, $rank)
),
waits as not materialized (
    from syncs where matches(run, $run) and matches(rank, $rank)
),
apart as materialized (
    select run, source, coalesce(pid, -1) as process from clocks_apart('activity', 'calls', 'waits')
),
lanes as materialized (
    from lanes('activity')
),
others as materialized (
    select run, source, rank, device, start_ns, end_ns from out_of_scope_rows('activity', 'out_of_scope_layers') where layer = 0
),
layers as not materialized (
    select
        run, source, rank, pid, device, start_ns, end_ns, correlation,
        case when class = 'communication' then 1 else 0 end::tinyint as layer
    from with_class('executions')
    union all by name
    select
        run, source, rank, pid, device, start_ns, end_ns, correlation,
        case when kind = 'graph' then 0 else 2 end::tinyint as layer
    from activity
    where kind <> 'kernel'
    union all by name
    select run, source, rank, device, start_ns, end_ns, 0::tinyint as layer from others
),
rows as materialized (
    select lane, middle_ns, layer, pid, start_ns, end_ns, correlation from with_lane('layers', 'lanes')
),
placed as not materialized (
    select l.run, l.source, l.rank, r.pid, l.device, r.start_ns, r.end_ns, r.correlation, r.layer
    from rows as r
    join hint_small('lanes') as l using (lane)
),
computing as not materialized (
    select run, source, rank, pid, device, start_ns, end_ns, correlation from placed where layer = 0
),
communication as not materialized (
    select run, source, rank, device, start_ns, end_ns from placed where layer = 1
),
memory as not materialized (
    select run, source, rank, device, start_ns, end_ns from placed where layer = 2
),
launching as not materialized (  -- of a source without calls no launch is known to be late
    from computing semi join (select distinct run, source from calls) using (run, source)
),
pauses as (
    from gaps('launching')
),
launches as (
    select
        g.run, g.source, g.rank, g.device, coalesce(g.pid, -1) as process, g.start_ns,
        launch_end(g.call_start_ns, g.call_end_ns, g.end_ns) as end_ns
    from with_calls('pauses', 'calls') as g
    where (g.run, g.source, process) not in (select (run, source, process) from apart)
),
first_starts as (
    select run, source, rank, device, min(start_ns) as start_ns from activity group by run, source, rank, device
),
blocking_copies as (
    select c.run, c.source, coalesce(c.pid, -1) as process, c.end_ns
    from memcpys as m
    join calls as c
        on m.run = c.run and m.source = c.source and m.pid is not distinct from c.pid and m.correlation = c.correlation
    where has_valid_interval(c.start_ns, c.end_ns)
        and (
            not contains(c.name, 'Async')
            or 'Pageable' in (m.src_memory, m.dst_memory) and 2 * c.end_ns >= m.start_ns + m.end_ns
        )
),
returns as (  -- what is launched later may be late because the CPU side waited for the device
    select run, source, coalesce(pid, -1) as process, end_ns
    from calls
    where contains(name, 'Synchronize') and has_valid_interval(start_ns, end_ns)
    union
    from blocking_copies
),
unlaunched as (
    select l.run, l.source, l.rank, l.device, coalesce(r.end_ns, f.start_ns) as start_ns, l.end_ns
    from launches as l
    join first_starts as f
        on l.run = f.run and l.source = f.source and l.rank = f.rank and l.device is not distinct from f.device
    asof left join returns as r
        on l.run = r.run and l.source = r.source and l.process = r.process and l.end_ns >= r.end_ns
    where l.end_ns > l.start_ns
),
late as materialized (  -- of other devices all that is exposed is recoverable, which needs no second sweep
    select distinct run, rank, device from unlaunched
),
covered as (
    select c.run, c.source, c.rank, c.device, c.start_ns, c.end_ns
    from computing as c
    semi join late as l on c.run = l.run and c.rank = l.rank and c.device is not distinct from l.device
    union all
    from unlaunched
),
late_communication as (
    from communication as c
    semi join late as l on c.run = l.run and c.rank = l.rank and c.device is not distinct from l.device
),
late_memory as (
    from memory as m
    semi join late as l on m.run = l.run and m.rank = l.rank and m.device is not distinct from l.device
)
select
    e.run, e.rank, e.device,
    e.window_ns, e.exposed_comm_ns,
    case when l.run is null then e.exposed_comm_ns else coalesce(r.b_ns + r.bc_ns, 0) end as recoverable_comm_ns,
    e.exposed_memory_ns,
    case when l.run is null then e.exposed_memory_ns else coalesce(r.c_ns, 0) end as recoverable_memory_ns
from lane_parts('lanes', 'rows') as e
left join late as l on e.run = l.run and e.rank = l.rank and e.device is not distinct from l.device
left join regions('covered', 'late_communication', 'late_memory') as r
    on e.run = r.run and e.rank = r.rank and e.device is not distinct from r.device
