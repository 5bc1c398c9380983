-- How busy is the GPU during each phase of a step?
-- `clip_to` returns for each part the time that its intervals cover (`busy_ns`), and how much of that time lies inside
-- the other relation (`inside_ns`). A macro takes the name of a CTE.
with phases as (
    select run, source, rank, rank as device, start_ns, end_ns, name as part
    from annotations
    where scope = 'cpu' and run = 'generated-4rank-ddp' and not starts_with(name, 'ProfilerStep')
),
running as (
    select run, source, rank, rank as device, start_ns, end_ns from kernels where run = 'generated-4rank-ddp'
)
select rank, part as phase, busy_ns as phase_ns, inside_ns as kernels_ns, inside_ns / nullif(busy_ns, 0) as of_phase_ratio
from clip_to('phases', 'running')
where rank = 0
order by phase_ns desc
