-- Where do two runs differ?
-- A full join keeps what only one of them has. `pivot` works for any number of runs.
with sums as (select run, name, count(*) as calls, sum(dur_ns)::bigint as dur_ns from ops group by run, name)
select
    name as op, a.calls as alexnet_calls, b.calls as resnet_calls,
    coalesce(b.dur_ns, 0) - coalesce(a.dur_ns, 0) as difference_ns
from (from sums where run = 'alexnet-batch8') as a
full join (from sums where run = 'resnet18-batch4-stacks') as b using (name)
order by abs(difference_ns) desc
limit 6
