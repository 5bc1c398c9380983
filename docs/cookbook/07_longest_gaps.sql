-- What are the longest idle gaps of a GPU?
-- `depth` returns one row for each stretch of time between two events; depth 0 is idle. The next activity is the one that
-- starts when the gap ends.
with activity as (select run, source, rank, device, start_ns, end_ns from gpu_activity where run = 'generated-4rank-ddp'),
gaps as (select run, source, rank, device, start_ns, end_ns, dur_ns from depth('activity') where depth = 0)
select gaps.rank, gaps.dur_ns, gpu_activity.kind as next_kind, any_value(gpu_activity.name) as next_name
from gaps
join gpu_activity
    on gpu_activity.run = gaps.run and gpu_activity.source = gaps.source and gpu_activity.device = gaps.device
    and gpu_activity.start_ns = gaps.end_ns
group by gaps.rank, gaps.start_ns, gaps.dur_ns, next_kind
order by gaps.dur_ns desc
limit 5
