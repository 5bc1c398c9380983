-- How long GPUs wait until they have done a hundredth of their work, of runs in which that is $least of their windows or more.
-- A row is one run: start_up_ns and window_ns are sums over its GPUs, at_ns is when the first of them launches the row that
-- completes the hundredth, on the axis of --from; NULL where the clocks of its sources cannot be compared.
with work as not materialized (
    select run, source, rank, pid, device, correlation, start_ns, end_ns, dur_ns
    from gpu_activity
    where list_contains($runs, run) and has_valid_interval(start_ns, end_ns)
),
windows as (
    select
        run, source, rank, device, min(start_ns) as first_ns, max(end_ns) - min(start_ns) as window_ns,
        sum(dur_ns) as work_ns
    from work
    group by run, source, rank, device
),
progress as (
    select
        *,
        sum(dur_ns) over (
            partition by run, source, rank, device order by start_ns, end_ns, correlation rows unbounded preceding
        ) as done_ns
    from work
),
starts as materialized (
    select
        row_number() over () as id, w.run, w.source, w.first_ns, w.window_ns,
        min(p.start_ns) as start_ns,
        arg_min_null(p.pid, p.done_ns) as pid,
        arg_min_null(p.correlation, p.done_ns) as correlation
    from progress as p
    join windows as w
        on p.run = w.run and p.source = w.source and p.rank = w.rank and p.device is not distinct from w.device
    where p.done_ns >= 0.01 * w.work_ns
    group by w.run, w.source, w.rank, w.device, w.first_ns, w.window_ns
),
long as materialized (
    select run
    from starts
    group by run
    having sum(start_ns - first_ns) >= $least * sum(window_ns)
),
firsts as materialized (
    from starts semi join long using (run)
),
calls as not materialized (
    select run, source, pid, tid, correlation, start_ns, end_ns from api_calls semi join long using (run)
),
launched as (
    select id, least(start_ns, call_start_ns) as at_ns from with_calls('firsts', 'calls')
),
events as (
    select run, source, start_ns, end_ns from gpu_activity semi join long using (run)
    union all
    select run, source, start_ns, end_ns from api_calls semi join long using (run)
    union all
    select run, source, start_ns, end_ns from ops semi join long using (run)
    union all
    select run, source, start_ns, end_ns from annotations semi join long using (run)
)
select
    f.run,
    as_bigint(sum(f.start_ns - f.first_ns)) as start_up_ns,
    as_bigint(sum(f.window_ns)) as window_ns,
    case when count(distinct a.shift_ns) = 1 then min(l.at_ns + a.shift_ns) end as at_ns
from firsts as f
join launched as l using (id)
join axis_of('events') as a on f.run = a.run and f.source = a.source
group by f.run
order by f.run
