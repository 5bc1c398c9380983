-- Which arguments have no column?
-- `args` is JSON of everything in the source that no column holds; `->>` extracts one value as text.
select args ->> 'warps per SM' as warps_per_sm, count(*) as kernels
from kernels
where args is not null
group by warps_per_sm
order by kernels desc, warps_per_sm
limit 5
