-- with_calls(work, calls): the rows of a relation (run, source, pid, correlation, and any others, which stay), each with the
-- call that launched it, of a relation of API calls (run, source, pid, tid, correlation, start_ns, end_ns): call_tid,
-- call_start_ns and call_end_ns, NULL where there is none. Where a runtime's call and the driver's below it share a
-- correlation, the call is the outer one. Processes are numbered, for a number joins in a third of the memory of their
-- three columns.
create or replace macro with_calls(work, calls) as table
with _processes as materialized (
    select (row_number() over ())::integer as process, run, source, pid
    from (select distinct run, source, pid from query_table(work))
),
_work as (
    select p.process, w.*
    from query_table(work) as w
    join hint_small('_processes') as p on w.run = p.run and w.source = p.source and w.pid is not distinct from p.pid
),
_launches as (
    select
        p.process, c.correlation,
        arg_min_null(c.tid, c.start_ns) as call_tid,
        min(c.start_ns) as call_start_ns,
        max(c.end_ns) as call_end_ns
    from query_table(calls) as c
    join hint_small('_processes') as p on c.run = p.run and c.source = p.source and c.pid is not distinct from p.pid
    where c.correlation is not null and has_valid_interval(c.start_ns, c.end_ns)
    group by p.process, c.correlation
)
select w.* exclude (process), l.call_tid, l.call_start_ns, l.call_end_ns
from _work as w
left join _launches as l on w.process = l.process and w.correlation = l.correlation;

-- launch_end(call_start_ns, call_end_ns, start_ns): the end of the call that launched work of the GPU which starts at
-- start_ns; NULL where there is no call, and where the work starts over a millisecond before the call: the clocks of the
-- CPU and the GPU do not agree then, and no time of one can be compared with the other's.
create or replace macro launch_end(call_start_ns, call_end_ns, start_ns) as
    case when try(call_start_ns - 1_000_000) <= start_ns then call_end_ns end;

-- sync_overruns(work, calls, waits): how long the work of a stream goes on after a synchronization with that stream has
-- returned, by the recorded times; over 0 is impossible, so the clocks of CPU and GPU do not agree. A row is one
-- synchronization (of the table syncs, `waits`): run, source, rank, pid, over_ns. Its work is the last before it on the stream
-- by the correlation, which counts the calls of a process.
create or replace macro sync_overruns(work, calls, waits) as table
with _waits as materialized (
    select w.run, w.source, w.rank, w.pid, w.stream, w.correlation, c.end_ns
    from query_table(calls) as c
    join query_table(waits) as w
        on c.run = w.run and c.source = w.source and c.pid is not distinct from w.pid and c.correlation = w.correlation
    where w.stream is not null and c.name like '%Synchronize%' and has_valid_interval(c.start_ns, c.end_ns)
),
_work as (
    select run, source, coalesce(pid, -1) as process, stream, correlation, end_ns
    from query_table(work)
    where correlation is not null and has_valid_interval(start_ns, end_ns) and exists (from _waits)
)
select s.run, s.source, s.rank, s.pid, k.end_ns - s.end_ns as over_ns
from _waits as s
asof join _work as k
    on s.run = k.run and s.source = k.source and coalesce(s.pid, -1) = k.process and s.stream = k.stream
    and s.correlation > k.correlation;

-- clocks_apart(work, calls, waits): the processes of which most synchronizations, and at least four, return over a
-- millisecond before their work ends. A row is one: run, source, rank, pid, how many return so early of how many, and the
-- median time by which they do.
create or replace macro clocks_apart(work, calls, waits) as table
select
    run, source, rank, pid,
    count(*) filter (over_ns > 1_000_000) as early,
    count(*) as of_all,
    as_bigint(median(over_ns) filter (over_ns > 1_000_000)) as over_ns
from sync_overruns(work, calls, waits)
group by run, source, rank, pid
having early >= 4 and 2 * early > of_all;

-- processes_apart(of_run, of_rank): clocks_apart() of all that is recorded of these runs and ranks, in a scope or not.
create or replace macro processes_apart(of_run, of_rank) as table
with _activity as not materialized (
    select run, source, rank, pid, device, stream, start_ns, end_ns, correlation
    from unscoped_activity
    where matches(run, of_run) and matches(rank, of_rank)
),
_calls as not materialized (
    select run, source, pid, tid, correlation, name, start_ns, end_ns
    from unscoped_api_calls
    where api in ('runtime', 'driver') and matches(run, of_run) and matches(rank, of_rank)
),
_syncs as not materialized (
    from unscoped_syncs where matches(run, of_run) and matches(rank, of_rank)
)
from clocks_apart('_activity', '_calls', '_syncs');

-- gaps(relation): the stretches in which no row of the relation runs, between its first start and its last end. A row is
-- one gap, and the row that ends it: of several that begin together the one launched first (with the least correlation).
-- The relation has run, source, rank, pid, device, start_ns, end_ns, correlation. first_ns and last_ns are its first start and
-- last end on the device by the clock of the source. One ordered pass: what a row follows is the running maximum of the ends
-- before it, lane above lane as in union_times().
create or replace macro gaps(relation) as table
with _lanes as materialized (
    from lanes(relation)
),
_ends as (
    select
        lane, start_ns, pid, correlation,
        (lane::hugeint << 64) as base,
        max((lane::hugeint << 64) + end_ns) over (rows between unbounded preceding and current row) as latest
    from (
        select lane, start_ns, end_ns, pid, correlation
        from with_lane(relation, '_lanes')
        order by lane, start_ns, correlation nulls last
    )
),
_waits as (
    select lane, start_ns as end_ns, pid, correlation, lag(latest) over () - base as start_ns
    from _ends
)
select
    run, source, rank, device,
    start_ns::bigint as start_ns,
    end_ns,
    (end_ns - start_ns)::bigint as dur_ns,
    pid, correlation, first_ns, last_ns
from _waits
join _lanes using (lane)
where start_ns > -9223372036854775808 and start_ns < end_ns;
