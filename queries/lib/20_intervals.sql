-- Interval algebra by sweeps: +1 at each start, -1 at each end, a running sum in between; overlaps are never joined.
--
-- A relation here has run, source, rank, device, start_ns, end_ns, and may have `part` (of any type): rows of different
-- parts are never merged. Rows that are not measured() are left out.
-- Each source is swept on its own and the sources' times are added: clocks of two sources need not agree, and a gap
-- between them is no idle time. By construction the sources of one rank do not overlap; where they do after all
-- (one trace stored under two names) time counts once a source, in the measure as in the window.
-- The sum's frame is `range`, so it sees all events of one instant together: back-to-back intervals never dip nor overlap.

-- intervals(relation): the measured() rows, with what a sweep needs of them; `part` is NULL where the relation has none.
create or replace macro intervals(relation) as table
select run, source, rank, device, part, start_ns, end_ns
from (select null as part where false union all by name from query_table(relation))
where measured(start_ns, end_ns);

-- depth(relation): how many rows of the relation run at once. A row is one stretch of time between two events.
create or replace macro depth(relation) as table
with _lanes as materialized (
    -- A number sorts faster than five columns.
    select row_number() over () as lane, run, source, rank, device, part
    from (select distinct run, source, rank, device, part from intervals(relation))
),
_rows as (
    select lane, start_ns, end_ns
    from intervals(relation) as i
    join _lanes as l
        on i.run = l.run and i.source = l.source and i.rank = l.rank
        and i.device is not distinct from l.device and i.part is not distinct from l.part
),
_events as (
    select lane, start_ns as at_ns, 1 as step from _rows
    union all
    select lane, end_ns, -1 from _rows
),
_stretches as (
    select lane, at_ns, lead(at_ns) over swept as until_ns, sum(step) over swept as depth
    from _events
    window swept as (partition by lane order by at_ns)
)
select run, source, rank, device, part, at_ns as start_ns, until_ns as end_ns, until_ns - at_ns as dur_ns, depth::integer as depth
from _stretches
join _lanes using (lane)
where until_ns > at_ns;

-- busy(relation): time in which at least one row runs (the measure of the union), and in which at least two do.
-- A row is one run, rank, device and part.
create or replace macro busy(relation) as table
select
    run, rank, device, part,
    coalesce(sum(dur_ns) filter (depth >= 1), 0)::bigint as busy_ns,
    coalesce(sum(dur_ns) filter (depth >= 2), 0)::bigint as concurrent_ns,
    max(depth) as max_concurrent
from depth(relation)
group by run, rank, device, part;
