-- Which rank is the straggler?
-- Kernels of one collective share a `seq` within a group. The rank that starts last makes the others wait. Ranks are
-- comparable only if their clocks are unix time.
with arrivals as (
    select run, group_name, seq, rank, start_ns, max(start_ns) over (partition by run, group_name, seq) as last_ns
    from collectives
    where origin = 'kernel' and seq is not null
)
select run, rank, count(*) as collectives, count(*) filter (start_ns = last_ns) as times_last, avg(last_ns - start_ns)::bigint as mean_wait_ns
from arrivals
group by run, rank
order by run, rank
