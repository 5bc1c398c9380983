-- What devices did in runs whose ranks wait for each other, in the scope or not: layer 0 computes, 1 communicates, 2 copies or
-- sets memory. detail is the class of a kernel, the kind of a collective, or memcpy or memset; launched_ns when the call that
-- launched it ended, by launch_end().
with activity as not materialized (
    select run, source, rank, pid, device, kind, name, start_ns, end_ns, dur_ns, correlation, stream
    from unscoped_activity
    where matches(run, $run) and has_valid_interval(start_ns, end_ns)
        and run in (select run from collective_waits where last_rank is not null)
),
calls as not materialized (
    select run, source, pid, tid, correlation, start_ns, end_ns
    from unscoped_api_calls
    where api in ('runtime', 'driver') and matches(run, $run)
),
launched as not materialized (
    select
        run, source, rank, pid, device, stream, name, start_ns, end_ns, dur_ns, correlation,
        {'kind': kind, 'call_end_ns': launch_end(call_start_ns, call_end_ns, start_ns)} as part
    from with_calls('activity', 'calls')
)
select
    run, source, rank, device,
    case when part.kind in ('memcpy', 'memset') then 2 when class = 'communication' then 1 else 0 end::tinyint as layer,
    case when part.kind = 'kernel' then coalesce(collective, class) else part.kind end as detail,
    start_ns, end_ns,
    part.call_end_ns as launched_ns
from with_named_class('launched', 'activity')
