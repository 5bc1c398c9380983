-- How long each run was recorded, of what ran on its GPUs, else of its ops.
-- A row is one run and rank, and device where it has one.
with spans as (
    select run, source, rank, device, start_ns, end_ns from gpu_activity
    union all
    select run, source, rank, null, start_ns, end_ns
    from ops
    where run not in (select run from gpu_activity)
)
select run, rank, device, window_ns from windows('spans') order by run, rank, device
