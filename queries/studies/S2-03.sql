-- The study counts one instruction, the single-precision addition, and takes it for the FLOPs. Convolutions and matrix
-- products are multiply-adds, on tensor cores or not; additions are what is left: biases, residuals, normalization.
-- /// study
-- title = "FLOPs of an image, forward"
-- study = "sum(FADD) / images"
-- corrected = "sum(FADD + FMUL + 2 × FFMA + … + tensor operations) / images"
-- fits = "kernel_metrics"
-- capture = "tracelab collect sweep S2 --match '*profiler-ncu*'"
-- example = ["generated/ncu-forward"]
-- chart = { x = "model", log = true }
-- [answers]
-- counted = { query = "roofline_fadd_only" }
-- ///
select
    'FLOPs of an image' as quantity,
    c.run,
    f.model,
    f.gpu as machine,
    f.batch_size,
    'flop' as unit,
    p.value as published,
    c.fadd / coalesce(c.samples, f.batch_size) as study,
    c.flop / coalesce(c.samples, f.batch_size) as corrected,
    p.claim,
    p.place
from counted as c
join fitting as f using (run)
left join published as p on f.model = p.model
order by f.model, c.run;

select
    string_agg(
        case
            when study is null then printf('%s: FADD was not counted', coalesce(model, run))
            when corrected is null then printf('%s: FADD was counted alone, so the FLOPs are not known',
                coalesce(model, run))
            when corrected < 1.05 * study then printf('%s: FADD alone is nearly all', coalesce(model, run))
            else printf('%s: FADD alone is %.2f %% of the FLOPs, %.0f times too few', coalesce(model, run),
                100 * study / corrected, corrected / study)
        end, '; ' order by model, run) || '.' as verdict
from cells
