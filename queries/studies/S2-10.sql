-- FLOPs a byte and bytes a second are ratios of sums over launches, and are held against what the card reaches, not
-- against its data sheet.
-- /// study
-- title = "FLOPs a byte beside the bandwidth"
-- study = "mean over kernels of FLOPs / bytes"
-- corrected = "sum(FLOPs) / sum(DRAM bytes)"
-- fits = "kernel_metrics"
-- capture = "tracelab collect sweep S2 --match '*profiler-ncu*'"
-- example = ["generated/ncu-forward"]
-- chart = { x = "model" }
-- [answers]
-- roofs = { query = "roofline" }
-- ///
with points as (
    select r.run, f.model, f.gpu as machine, f.batch_size, r.intensity_flop_per_byte, r.flop, r.dram_bytes, r.dur_ns
    from roofs as r
    join fitting as f using (run)
    where r.kernel <> 'all' and r.precision = 'all'
),
sums as (
    select run, model, machine, batch_size, avg(intensity_flop_per_byte) as mean, sum(flop) / nullif(sum(dram_bytes), 0) as whole,
        sum(dram_bytes) / nullif(sum(dur_ns), 0) as gb_per_s
    from points
    group by all
)
select 'FLOPs a byte' as quantity, run, model, machine, batch_size, 'FLOP/byte' as unit, mean as study, whole as corrected from sums
union all
select 'DRAM bandwidth', run, model, machine, batch_size, 'GB/s', null, gb_per_s from sums
order by all;

select
    string_agg(printf('%s: %.1f FLOP/byte in all, where the mean over kernels says %.1f', coalesce(model, run), corrected, study), '; ' order by model, run) || '.' as verdict
from cells
where quantity = 'FLOPs a byte'
