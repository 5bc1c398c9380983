-- nvidia-smi reports the memory in use on the card: the framework's reserve, the driver's context, and other processes.
-- What the model needs is what the framework allocated. A run on a processor has no card: what its host has in use is
-- no measure of it.
-- /// study
-- title = "Memory as nvidia-smi reports it"
-- study = "in use on the card"
-- corrected = "most allocated, and reserved, by the framework on that card"
-- fits = """coalesce(gpus, 1) > 0 and (
--     run in (select run from host_samples where device is not null and used_bytes is not null)
--     or run in (select run from memory_peaks where device is not null and used_bytes is not null)
-- )"""
-- capture = "tracelab collect sweep S1"
-- example = ["generated/sweeps/generated-scaling"]
-- chart = { kind = "line", x = "batch_size", by = "model" }
-- [answers]
-- memory = { query = "sweep_memory" }
-- ///
with used as (
    select m.*, f.gpu as machine, f.gpus, concat_ws(', ', m.layout, 'GPU ' || m.device) as setting
    from memory as m join fitting as f using (run)
    where m.device is not null and m.used_bytes is not null
)
select
    'in use, and allocated' as quantity,
    run,
    model,
    machine,
    batch_size,
    gpus,
    setting,
    'bytes' as unit,
    used_bytes as study,
    allocated_bytes as corrected,
    printf('%.3g %% of all', 100 * of_total_ratio) as claim
from used
union all by name
select
    'in use, and reserved' as quantity,
    run,
    model,
    machine,
    batch_size,
    gpus,
    setting,
    'bytes' as unit,
    used_bytes as study,
    reserved_bytes as corrected
from used where reserved_bytes is not null
order by model, batch_size, run, setting, quantity;

with factors as (
    select
        min(study / corrected) filter (quantity like '%allocated') as least_of_allocated,
        max(study / corrected) filter (quantity like '%allocated') as most_of_allocated,
        min(study / corrected) filter (quantity like '%reserved') as least_of_reserved,
        max(study / corrected) filter (quantity like '%reserved') as most_of_reserved,
        count(*) filter (quantity like '%allocated') as devices,
        count(*) filter (quantity like '%allocated' and corrected is null) as unrecorded
    from cells where coalesce(corrected, 1) > 0
)
select
    coalesce(printf('What is in use on a card is %s times what the framework allocated at its peak',
        format_range(least_of_allocated, most_of_allocated)),
        'What is in use is known, but not what the framework allocated')
    || coalesce(printf(', %s times what it reserved', format_range(least_of_reserved, most_of_reserved)), '')
    || case
        when unrecorded between 1 and devices - 1 then printf('; on %d of %d devices no record of what it allocated',
            unrecorded, devices)
        else ''
    end || '.' as verdict
from factors
