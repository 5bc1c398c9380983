-- How much communication is hidden behind compute?
-- Three relations form eight regions; `exclusive` divides the window among them by precedence.
with kinds as (from with_class('kernels')),
compute as (from kinds where class <> 'communication'),
comm as (from kinds where class = 'communication'),
memory as (select run, source, rank, device, start_ns, end_ns from memcpys)
select run, rank, device, window_ns, a_ns as compute_ns, b_only_ns as exposed_comm_ns, c_only_ns as exposed_copies_ns, idle_ns
from exclusive('compute', 'comm', 'memory')
order by run, rank, device
