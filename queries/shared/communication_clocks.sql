-- The communication kernels of devices by their id in communication_kernels, with the time so far in which the device computed at
-- their start and end: start_clock_ns and end_clock_ns of cover_clocks(). Of a wanted rank, or of all; in a scope all the same.
-- /// of one query
with communication as not materialized (
    select id, run, source, rank, device, start_ns, end_ns
    from communication_kernels
    where id > 0 and matches(run, $run) and matches(rank, $rank)
),
executions as not materialized (
    select run, source, rank, pid, device, stream, name, start_ns, end_ns, dur_ns, correlation
    from recorded_kernels
    where matches(run, $run) and matches(rank, $rank)
),
compute as (
    select run, source, rank, device, start_ns, end_ns from with_class('executions') where class <> 'communication'
    union all
    select run, source, rank, device, start_ns, end_ns
    from unscoped_activity
    where kind = 'graph' and matches(run, $run) and matches(rank, $rank)
)
select c.run, c.rank, k.*
from cover_clocks('communication', 'compute') as k
join communication as c using (id)
