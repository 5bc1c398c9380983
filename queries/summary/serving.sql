-- How many steps an inference server marks in each run; 0 where it only captures CUDA graphs.
-- `runs` are the runs to read, none for all.
with marked as (
    select run, source, rank, pid, name, scope, start_ns, end_ns
    from annotations
    where len($runs) = 0 or list_contains($runs, run)
)
select run, count(step) as steps
from serving_steps('marked')
group by run
