-- The time in which copies of each direction and pair of memory kinds ran on a device, the part of it in which no kernel and no
-- whole graph did, in the scope or not, and the window of the device. Of a wanted rank, or of all.
-- /// of one query
with copies as (
    select
        run, source, rank, device, start_ns, end_ns,
        {'direction': coalesce(direction, 'unknown'), 'src_memory': src_memory, 'dst_memory': dst_memory} as part
    from memcpys
    where matches(run, $run) and matches(rank, $rank)
),
activity as not materialized (
    select run, source, rank, device, kind, start_ns, end_ns
    from gpu_activity
    where matches(run, $run) and matches(rank, $rank)
),
computing as (
    select run, source, rank, device, start_ns, end_ns
    from unscoped_activity
    where kind in ('kernel', 'graph') and matches(run, $run) and matches(rank, $rank)
),
kinds as (
    select distinct run, rank, device, part from copies
)
select
    k.run, k.rank, k.device,
    k.part.direction as direction,
    k.part.src_memory as src_memory,
    k.part.dst_memory as dst_memory,
    zero_if_missing(c.run, c.busy_ns) as busy_ns,
    zero_if_missing(c.run, c.busy_ns - c.inside_ns) as exposed_ns,
    zero_if_missing(w.run, w.window_ns) as window_ns
from kinds as k
left join clip_to('copies', 'computing') as c
    on k.run = c.run and k.rank = c.rank and k.device is not distinct from c.device and k.part is not distinct from c.part
left join scope_windows('activity') as w on k.run = w.run and k.rank = w.rank and k.device is not distinct from w.device
