-- Which Python functions take the time?
-- If the run was recorded with stacks, `python_frames` has every call and its parent. Self time is the duration without
-- the children.
with children as (
    select run, source, parent_frame as frame, sum(dur_ns) as children_ns from python_frames group by all
)
select name, count(*) as calls, sum(dur_ns)::bigint as total_ns, sum(dur_ns - coalesce(children_ns, 0))::bigint as self_ns
from python_frames
left join children using (run, source, frame)
group by name
order by self_ns desc
limit 6
