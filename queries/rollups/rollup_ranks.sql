with stepped as (
    select
        run, rank, device,
        count(*) as steps,
        floor(median(step_ns)) as step_ns,
        nullif(floor(median(compute_ns)), 0) as step_compute_ns  -- 0: nothing is known to belong to a step
    from step_breakdown
    where step_ns is not null
    group by run, rank, device
),
recorded as (
    select run, rank, null::integer as device, count(*) as steps, floor(median(dur_ns)) as step_ns
    from trained
    where dur_ns >= 0
    group by run, rank
),
keys as (
    select run, rank, device from gpu_breakdown
    union
    select run, rank, device from stepped
    union
    select run, rank, null from recorded where (run, rank) not in (select (run, rank) from gpu_breakdown)
    union
    select run, rank, null from stragglers where (run, rank) not in (select (run, rank) from gpu_breakdown)
),
placed as (
    select *, row_number() over (partition by run, rank order by device nulls last) = 1 as is_first from keys
)
select
    k.run, k.rank, k.device, c.host, c.uuid,
    b.window_ns, b.compute_ns, b.exposed_comm_ns, b.exposed_memory_ns, b.idle_ns, b.kernel_sum_ns, b.unclassified_ns,
    coalesce(s.steps, t.steps) as steps,
    try_cast(coalesce(s.step_ns, t.step_ns) as bigint) as step_ns,
    try_cast(s.step_compute_ns as bigint) as step_compute_ns,
    w.collectives,
    w.dur_ns as collective_ns,
    w.wait_ns, w.exposed_wait_ns, w.times_last, w.caused_wait_ns, w.removable_ns, w.lateness_ns
from placed as k
left join gpu_breakdown as b on k.run = b.run and k.rank = b.rank and k.device is not distinct from b.device
left join stepped as s on k.run = s.run and k.rank = s.rank and k.device is not distinct from s.device
left join recorded as t on k.run = t.run and k.rank = t.rank
left join (
    select run, rank, device, any_value(host) as host, any_value(uuid) as uuid from cards group by run, rank, device
) as c on k.run = c.run and k.rank = c.rank and k.device = c.device
left join stragglers as w on k.is_first and k.run = w.run and k.rank = w.rank
order by k.run, k.rank, k.device
