-- launch_calls(calls, work): of a relation of API calls (run, source, pid, correlation, api, start_ns, end_ns) those that
-- launched rows of another (run, source, pid, correlation). A row is one correlation of one process; where a runtime's
-- call and the driver's below it share it, the call is the outer one.
create or replace macro launch_calls(calls, work) as table
select run, source, pid, correlation, min(start_ns) as call_start_ns, max(end_ns) as call_end_ns
from query_table(calls) as c
semi join query_table(work) as w
    on c.run = w.run and c.source = w.source and c.pid is not distinct from w.pid and c.correlation = w.correlation
where api in ('runtime', 'driver') and measured(start_ns, end_ns)
group by run, source, pid, correlation;

-- gaps(relation): the stretches in which no row of the relation runs, between its first start and its last end. A row is
-- one gap, and the row that ends it: of several that begin together the one launched first (with the least correlation).
-- The relation has run, source, rank, pid, device, start_ns, end_ns, correlation. One ordered pass: what a row follows is
-- the running maximum of the ends before it. Each lane has a base of its own, 2^64 above the one before, so that an end of
-- another lane is never the maximum of this one, and the window needs no partitions (see swept()).
create or replace macro gaps(relation) as table
with _lanes as materialized (
    select
        (row_number() over (order by run, source, rank, device))::hugeint * 18446744073709551616 as base,
        run, source, rank, device
    from (select distinct run, source, rank, device from intervals(relation))
),
_rows as (
    select base, i.start_ns, i.end_ns, i.pid, i.correlation
    from query_table(relation) as i
    join _lanes as l
        on i.run = l.run and i.source = l.source and i.rank = l.rank and i.device is not distinct from l.device
    where measured(i.start_ns, i.end_ns)
),
_ends as (
    select
        base, start_ns, pid, correlation,
        max(base + end_ns) over (rows between unbounded preceding and current row) as latest
    from (select base, start_ns, end_ns, pid, correlation from _rows order by base, start_ns, correlation nulls last)
),
_waits as (
    select base, start_ns as end_ns, pid, correlation, lag(latest) over () - base as start_ns
    from _ends
)
select
    run, source, rank, device,
    start_ns::bigint as start_ns,
    end_ns,
    (end_ns - start_ns)::bigint as dur_ns,
    pid, correlation
from _waits
join _lanes using (base)
where start_ns > -9223372036854775808 and start_ns < end_ns;
