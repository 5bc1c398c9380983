-- The rows of collective_waits, with the time so far in which the rank computed, by clip_to_clocks(), at each of their instants:
-- when it starts, when its wait ends, when the last rank starts, and when it ends. In a scope all the same. NULL where nothing
-- follows from it: the wait is not known, and the kind is none that a rank may leave early.
with numbered as materialized (
    select *, row_number() over () as wait_id from collective_waits
),
instants as (
    select 4 * wait_id + place as id, run, source, rank, device, at_ns as start_ns, at_ns as end_ns
    from (
        select
            wait_id, run, source, rank, device, unnest(range(4)) as place,
            unnest([start_ns, start_ns + coalesce(wait_ns, duration_wait_ns, 0), last_start_ns, end_ns]) as at_ns
        from numbered
        where wait_ns is not null or may_synchronize(collective)
    )
),
executions as not materialized (
    select run, source, rank, pid, device, stream, name, start_ns, end_ns, dur_ns, correlation
    from recorded_kernels
    where matches(run, $run)
),
compute as (
    select run, source, rank, device, start_ns, end_ns from with_class('executions') where class <> 'communication'
    union all
    select run, source, rank, device, start_ns, end_ns from unscoped_activity where kind = 'graph' and matches(run, $run)
    union all
    select run, source, rank, device, start_ns, end_ns from cpu_layers where layer = 0
),
clocks as (
    select
        id // 4 as wait_id,
        max(start_clock_ns) filter (id % 4 = 0) as start_clock_ns,
        max(start_clock_ns) filter (id % 4 = 1) as wait_end_clock_ns,
        max(start_clock_ns) filter (id % 4 = 2) as last_start_clock_ns,
        max(start_clock_ns) filter (id % 4 = 3) as end_clock_ns
    from cover_clocks('instants', 'compute')
    group by id // 4
)
select w.* exclude (wait_id), c.start_clock_ns, c.wait_end_clock_ns, c.last_start_clock_ns, c.end_clock_ns
from numbered as w
left join clocks as c using (wait_id)
