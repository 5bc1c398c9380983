-- What other tools see of a trace; the queries in queries/like use it.

-- double_us(ns): microseconds as the double that a JSON parser makes of them. Doubles of today's times are 0.25 us apart.
create or replace macro double_us(ns) as (ns // 1000)::double + (ns % 1000) / 1000;

-- floor_us(ns): down to a whole microsecond, in ns.
create or replace macro floor_us(ns) as ns - ((ns % 1000) + 1000) % 1000;

-- hta_start_ns, hta_end_ns: an event's start up and its end down to whole microseconds, as HTA takes them where times have
-- a fraction. `doubles`: of the doubles that it makes of absolute times; else of the times themselves.
create or replace macro hta_start_ns(start_ns, doubles) as
    case when doubles then try_cast(ceil(double_us(start_ns)) as bigint) * 1000 else -floor_us(-start_ns) end;
create or replace macro hta_end_ns(start_ns, end_ns, doubles) as
    case
        when doubles then try_cast(floor(double_us(start_ns) + (end_ns - start_ns) / 1000) as bigint) * 1000
        else floor_us(end_ns)
    end;

-- hta_is_compute(name), hta_is_comm(name): the kind that HTA assigns to a row on a stream that is neither copy nor memset.
create or replace macro hta_is_comm(name) as regexp_matches(name, '^nccl.*Kernel');
create or replace macro hta_is_compute(name) as not regexp_matches(name, '^(nccl.*Kernel|.*Memcpy|Memset|dma|.*Sync)');

-- hta_has_stream(kind, stream, args): whether HTA takes a synchronization for work of a stream. It knows that a stream of -1
-- is none, but takes 4294967295, as torch before 2.3 writes it, for the number of a stream; the runtime of an MTIA calls the
-- stream of its `synchronize` otherwise.
create or replace macro hta_has_stream(kind, stream, args) as
    (stream is not null and kind is distinct from 'synchronize') or coalesce(contains(args, '"stream":4294967295'), false);

-- hta_takes_for_kernel(args): whether HTA takes an op for a kernel: its arguments have the number of a stream, as those of
-- Triton's launches have.
create or replace macro hta_takes_for_kernel(args) as
    case when contains(args, '"stream":') then coalesce(try_cast(args ->> '$.stream' as bigint), -1) <> -1 else false end;

-- unlinked(gpu, calls): the launches that the file lacks, as distinct run, source and correlation (NULL where the work has
-- none): those of a relation of GPU work (run, source, correlation) without a call in `calls` (run, source, correlation).
-- Sources without calls have none.
create or replace macro unlinked(gpu, calls) as table
select distinct g.run, g.source, g.correlation
from query_table(gpu) as g
semi join (select distinct run, source from query_table(calls)) as s on g.run = s.run and g.source = s.source
anti join query_table(calls) as c on g.run = c.run and g.source = c.source and g.correlation = c.correlation;

-- hta_rows(gpu, calls, marks, with_last, linked_only, doubles): the GPU rows that HTA counts, with its times; all devices of
-- a rank are one. `gpu` has run, source, rank, kind, name, correlation, start_ns, end_ns; `calls` run, source, correlation,
-- start_ns; `marks` run, source, rank, name, start_ns, end_ns: the profiler's steps, on the host and on the GPU. Where a run
-- has several, rows stay whose call began before the last step did (`with_last`: before it ended); with `linked_only` only
-- rows stay that have a call, where the source has any. Ops (kind 'op') always stay. `is_used` is true for what stays.
create or replace macro hta_rows(gpu, calls, marks, with_last, linked_only, doubles) as table
with _cut_runs as (
    select run from query_table(marks) group by run having count(distinct name) > 1
),
_last_steps as (
    select
        run, source, rank,
        max(case when with_last then hta_end_ns(start_ns, end_ns, doubles) + 1 else hta_start_ns(start_ns, doubles) end) as until_ns
    from query_table(marks)
    semi join _cut_runs using (run)
    where has_valid_interval(start_ns, end_ns)
    group by run, source, rank
),
_launched as (
    select run, source, correlation, min(hta_start_ns(start_ns, doubles)) as first_ns
    from query_table(calls)
    where correlation is not null and start_ns between -4611686018427387904 and 4611686018427387903
    group by run, source, correlation
),
_linked_sources as (
    select distinct run, source from query_table(calls) where linked_only
)
select
    g.run, g.source, g.rank,
    null::integer as device,
    g.kind, g.name,
    hta_start_ns(g.start_ns, doubles) as start_ns,
    hta_end_ns(g.start_ns, g.end_ns, doubles) as end_ns,
    g.kind = 'op'
    or (
        (l.until_ns is null or coalesce(c.first_ns < l.until_ns, false)) and (s.run is null or c.run is not null)
    ) as is_used
from query_table(gpu) as g
left join _last_steps as l on g.run = l.run and g.source = l.source and g.rank = l.rank
left join _launched as c on g.run = c.run and g.source = c.source and g.correlation = c.correlation
left join _linked_sources as s on g.run = s.run and g.source = s.source
where has_valid_interval(g.start_ns, g.end_ns);

-- hta_compute_outside(calls, marks, with_last, linked_only, doubles): the compute among hta_rows() of what a scope leaves out.
create or replace macro hta_compute_outside(calls, marks, with_last, linked_only, doubles) as table
with _other_rows as not materialized (
    select run, source, rank, kind, name, correlation, start_ns, end_ns
    from out_of_scope_activity
    where kind in ('kernel', 'graph')
    union all
    select run, source, rank, 'sync', kind, correlation, start_ns, end_ns
    from left_out_syncs
    where hta_has_stream(kind, stream, args)
)
select run, source, rank, device, start_ns, end_ns
from hta_rows('_other_rows', calls, marks, with_last, linked_only, doubles)
where is_used and (kind = 'graph' or hta_is_compute(name));

-- hta_busy(relation): the measure of a union of such rows as HTA adds it up. A row is one run and rank. An event within one
-- microsecond ends before it starts there; where no other row covers it, HTA takes what it lacks off the sum.
create or replace macro hta_busy(relation) as table
with _latest as (
    select
        run, source, rank, start_ns,
        -- of all that start together: the join below takes any one of them
        max(end_ns) over (partition by run, source, rank order by start_ns range unbounded preceding) as latest_ns
    from query_table(relation)
    where end_ns >= start_ns
),
_turned as (
    select run, source, rank, start_ns, start_ns - end_ns as less_ns from query_table(relation) where end_ns < start_ns
),
_less as (
    select t.run, t.rank, sum(t.less_ns) as less_ns
    from _turned as t
    asof left join _latest as l
        on t.run = l.run and t.source = l.source and t.rank = l.rank and t.start_ns >= l.start_ns
    where l.latest_ns is null or l.latest_ns < t.start_ns
    group by t.run, t.rank
),
_measures as (
    select run, rank, busy_ns from busy(relation)
    union all
    select run, rank, -less_ns from _less
)
select run, rank, as_bigint(sum(busy_ns)) as busy_ns
from _measures
group by run, rank;

-- percent_of(part, of_all, digits): as a tool prints it; NULL of 0.
create or replace macro percent_of(part, of_all, digits) as round(100 * part / nullif(of_all, 0), digits);

-- double_us_to_ns(us): a time in doubles of microseconds (see double_us) as ns.
create or replace macro double_us_to_ns(us) as try_cast(us * 4 as bigint) * 250;

-- nvprof_sums(relation): a summary of nvprof on a relation with run, rank, name, start_ns, end_ns and dur_ns. A row is one
-- run, rank and name with has_valid_interval() rows; `percent` is of `sum_ns`, the durations of the whole rank.
create or replace macro nvprof_sums(relation) as table
with _names as (
    select
        run, rank, name,
        sum(dur_ns) as time_ns,
        count(*) as calls,
        as_bigint(round(avg(dur_ns))) as avg_ns,
        min(dur_ns) as min_ns,
        max(dur_ns) as max_ns
    from query_table(relation)
    where has_valid_interval(start_ns, end_ns)
    group by run, rank, name
),
_sums as (
    select run, rank, sum(time_ns) as sum_ns from _names group by run, rank
)
select
    run, rank, name,
    percent_of(time_ns, sum_ns, 6) as percent,
    as_bigint(time_ns) as time_ns,
    calls, avg_ns, min_ns, max_ns,
    as_bigint(sum_ns) as sum_ns
from _names
join _sums using (run, rank);

-- hta_path_events(wanted): the events of one run that HTA's critical path takes, in whole microseconds: ops and calls of
-- threads ('cpu'), work of streams ('gpu'), synchronizations ('sync') and ranges ('range'), in the order of their starts.
create or replace macro hta_path_events(wanted) as table
with _events as (
    select rank, source, pid, tid, null::bigint as stream, 'cpu' as kind, name, start_ns, end_ns, null::bigint as correlation,
        null::bigint as waits_for_stream, null::bigint as waits_for_correlation
    from ops
    where run = wanted
    union all
    select rank, source, pid, tid, null, 'cpu', name, start_ns, end_ns, correlation, null, null
    from api_calls
    where run = wanted
    union all
    select rank, source, pid, tid, null, 'range', name, start_ns, end_ns, null, null, null
    from annotations
    where run = wanted and scope = 'cpu'
    union all
    select rank, source, pid, null, stream, 'gpu', case kind when 'kernel' then name else kind end, start_ns, end_ns, correlation,
        null, null
    from gpu_activity
    where run = wanted
    union all
    select rank, source, pid, null, case when hta_has_stream(kind, stream, args) then stream end, 'sync', kind, start_ns, end_ns,
        correlation, waits_for_stream, waits_for_correlation
    from syncs
    where run = wanted
)
select
    rank, source, pid, tid, stream, kind, name,
    hta_start_ns(start_ns, false) // 1000 as start_us,
    greatest(hta_start_ns(start_ns, false), hta_end_ns(start_ns, end_ns, false)) // 1000 as end_us,
    correlation, waits_for_stream, waits_for_correlation
from _events
where has_valid_interval(start_ns, end_ns)
order by rank, start_ns, end_ns desc, kind, name, correlation;
