-- The study looks at the points of single kernels and names the roof that each is close to. A whole model's bound is
-- that of the kernels that take its time: sums of FLOPs over sums of bytes, and the share of the time that is spent
-- under each roof.
-- /// study
-- title = "Roofline of a forward pass"
-- study = "kernels whose intensity is below the ridge, of all kernels"
-- corrected = "time of kernels below the ridge, of the time of all"
-- fits = "kernel_metrics"
-- capture = "tracelab collect sweep S2 --match '*profiler-ncu*'"
-- example = ["generated/ncu-forward"]
-- chart = { answer = "roofs" }
-- [answers]
-- roofs = { query = "roofline" }
-- ///
with points as (
    select
        r.run,
        f.model,
        f.gpu as machine,
        f.batch_size,
        r.kernel,
        r.bound,
        r.dur_ns,
        r.flop,
        r.dram_bytes,
        r.precision
    from roofs as r
    join fitting as f using (run)
),
kernels_apart as (
    select
        run,
        model,
        machine,
        batch_size,
        count(*) filter (bound = 'memory') / nullif(count(bound), 0) as of_kernels,
        sum(dur_ns) filter (bound = 'memory') / nullif(sum(dur_ns) filter (bound is not null), 0) as of_time,
        sum(flop) / nullif(sum(dram_bytes), 0) as intensity
    from points
    where kernel <> 'all' and precision = 'all'
    group by all
)
select
    'memory-bound' as quantity,
    k.run,
    k.model,
    k.machine,
    k.batch_size,
    'ratio' as unit,
    k.of_kernels as study,
    k.of_time as corrected,
    p.claim,
    p.place
from kernels_apart as k
left join published as p on k.model = p.model
union all by name
select
    'intensity of the whole' as quantity,
    run,
    model,
    machine,
    batch_size,
    'FLOP/byte' as unit,
    intensity as corrected
from kernels_apart
order by all;

select
    string_agg(printf(
        '%s spends %.0f %% of its time under the memory roof (%.1f FLOP/byte in all); the study has it %s',
        coalesce(m.model, m.run), 100 * m.corrected, i.corrected, coalesce(m.claim, 'nowhere')), '; ' order by m.model,
        m.run) || '.' as verdict
from cells as m
join cells as i on m.run = i.run and i.quantity = 'intensity of the whole'
where m.quantity = 'memory-bound'
