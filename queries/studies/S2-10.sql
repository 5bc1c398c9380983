-- FLOPs a byte and bytes a second are ratios of sums over launches, and the bytes a second are held against what the
-- card reaches: the bandwidth that `tracelab collect ceilings` measured on it. The data sheet's, or the report's own
-- peak, is the study's; times at base clocks, or at unknown ones, are held against no measurement.
-- /// study
-- title = "FLOPs a byte beside the bandwidth"
-- study = "mean over kernels of FLOPs / bytes; bandwidth of the data sheet"
-- corrected = "sum(FLOPs) / sum(DRAM bytes); bandwidth as measured on the card"
-- fits = "kernel_metrics"
-- capture = "tracelab collect sweep S2 --match '*profiler-ncu*'"
-- example = ["generated/ncu-forward"]
-- chart = { x = "model" }
-- [answers]
-- roofs = { query = "roofline" }
-- ///
with points as (
    select
        r.run, f.model, f.gpu as machine, f.batch_size, r.intensity_flop_per_byte, r.flop, r.dram_bytes, r.dur_ns,
        r.theoretical_gb_per_s, r.theoretical_source, r.ceiling_run,
        case when r.ceiling_source = 'measured' or contains(r.ceiling_source,
            'measured (memory)') then r.ceiling_gb_per_s end as measured_gb_per_s,
        r.of_bandwidth_ratio is not null as is_comparable
    from roofs as r
    join fitting as f using (run)
    where r.kernel <> 'all' and r.precision = 'all'
),
sums as (
    select
        run,
        model,
        machine,
        batch_size,
        avg(intensity_flop_per_byte) as mean,
        sum(flop) / nullif(sum(dram_bytes), 0) as whole,
        sum(dram_bytes) / nullif(sum(dur_ns), 0) as gb_per_s,
        max(theoretical_gb_per_s) as theoretical_gb_per_s,
        max(measured_gb_per_s) as measured_gb_per_s,
        max(theoretical_source) as theoretical_source,
        max(ceiling_run) as ceiling_run,
        bool_and(is_comparable) as is_comparable
    from points
    group by run, model, machine, batch_size
)
select
    'FLOPs a byte' as quantity,
    run,
    model,
    machine,
    batch_size,
    'FLOP/byte' as unit,
    mean as study,
    whole as corrected,
    null as claim
from sums
union all by name
select 'DRAM bandwidth' as quantity, run, model, machine, batch_size, 'GB/s' as unit, gb_per_s as corrected from sums
union all by name
select
    'bandwidth of the card' as quantity,
    run,
    model,
    machine,
    batch_size,
    'GB/s' as unit,
    theoretical_gb_per_s as study,
    measured_gb_per_s as corrected,
    concat_ws('; ',
        'study: '
        || case theoretical_source when 'ncu' then 'peak of the report' when 'specification' then 'data sheet' end,
        'corrected: measured in ' || case when measured_gb_per_s is not null then ceiling_run end) as claim
from sums where coalesce(theoretical_gb_per_s, measured_gb_per_s) is not null
union all by name
select
    'DRAM bandwidth / that of the card' as quantity,
    run,
    model,
    machine,
    batch_size,
    'ratio' as unit,
    gb_per_s / theoretical_gb_per_s as study,
    case when is_comparable then gb_per_s / measured_gb_per_s end as corrected
from sums where coalesce(theoretical_gb_per_s, measured_gb_per_s) is not null
order by all;

with wide as (
    select
        run, any_value(model) as model,
        max(study) filter (quantity = 'FLOPs a byte') as mean,
        max(corrected) filter (quantity = 'FLOPs a byte') as whole,
        max(corrected) filter (quantity = 'DRAM bandwidth') as gb_per_s,
        max(corrected) filter (quantity = 'bandwidth of the card') as measured,
        max(corrected) filter (unit = 'ratio') as of_measured,
        max(study) filter (unit = 'ratio') as of_theoretical
    from cells
    group by run
)
select
    string_agg(printf('%s: %.1f FLOP/byte in all, where the mean over kernels is %.1f', coalesce(model, run), whole,
        mean)
        || case
            when of_measured is not null then printf(', at %.3g GB/s, which is %.3g %% of what the card reaches',
                gb_per_s, 100 * of_measured)
            when measured is not null then printf(
                ', at %.3g GB/s and at clocks other than those of the measured %.3g GB/s', gb_per_s, measured)
            when of_theoretical is not null then printf(
                ', at %.3g GB/s, which is %.3g %% of the peak; what the card reaches was not measured', gb_per_s,
                100 * of_theoretical)
            when gb_per_s is not null then printf(', at %.3g GB/s; what the card reaches is not known', gb_per_s)
            else ''
        end, '; ' order by model, run) || '.' as verdict
from wide
where whole is not null
