-- How far a sum of additions alone falls short of the FLOPs: the metric of a study that counted only FADD.
-- A row is one run, rank and device. `fadd` adds up one counter, single-precision additions, over all profiled launches, as
-- `grep sum | awk` over a console log does; `flop` adds up all that counts, a multiply-add as two. Convolutions and matrix
-- products are multiply-adds, on tensor cores or not, so additions are what is left: biases, residuals, normalization.
-- /// query
-- title = "FADD count against the FLOPs"
-- needs = ["kernel_metrics"]
-- show = ["run", "rank", "launches", "fadd", "flop", "fadd_of_flop_ratio", "underestimate_factor", "verdict"]
-- chart = { kind = "pairs", x = "run", y = ["fadd", "flop"], labels = ["additions (FADD) alone", "all floating-point operations"] }
-- [params]
-- common = ["run", "rank", "device", "half"]
-- samples = { type = "integer", example = 256, about = "samples that were profiled; else the batch size that the run notes" }
-- [columns]
-- common = ["run", "rank", "device", "launches"]
-- fadd = "Single-precision additions; NULL where a launch does not have them."
-- flop = "Floating-point operations; NULL where a metric is missing."
-- fadd_of_flop_ratio = "fadd / flop."
-- underestimate_factor = "flop / fadd: how many times too small fadd is."
-- samples = "Samples that were profiled."
-- fadd_per_sample = "fadd / samples, rounded."
-- flop_per_sample = "flop / samples, rounded."
-- verdict = "The finding in a sentence."
-- flop_missing = "common"
-- [report]
-- section = "roofline"
-- order = 4
-- ok_text = "Additions alone are at least half of the floating-point operations."
-- unknown = "How many operations a count of additions misses is not known: a metric is missing, see `flop_missing`."
-- [[report.findings]]
-- when = "flop > 2 * fadd"
-- by = "underestimate_factor"
-- text = "[{where}: ]additions alone are {fadd of flop} of the FLOPs."
-- advice = "Count multiplications and fused multiply-adds, too, and the tensor cores: the roofline above does."
-- ///
with launches as materialized (
    select * replace (row_number() over () as id)  -- a number joins faster than the four columns that an id is made of
    from ncu_launches
    where matches(run, $run) and matches(rank, $rank) and matches(device, $device)
),
additions as (
    select id, executed from counter_values('launches') where family = 'thread' and op = 'fadd'
),
sums as (
    select
        l.run, l.rank, l.device,
        count(*) as launches,
        complete_sum(a.executed) as fadd,
        complete_sum(f.flop) as flop,
        list_sort(list_distinct(flatten(list(f.missing)))) as missing
    from launches as l
    join launch_flop('launches', $half) as f on l.id = f.id and f.precision = 'all'
    left join additions as a on l.id = a.id
    group by l.run, l.rank, l.device
),
sampled as (
    select s.*, coalesce($samples, r.batch_size)::bigint as samples
    from sums as s
    left join runs as r on s.run = r.run
)
select
    run, rank, device, launches,
    as_bigint(round(fadd)) as fadd,
    as_bigint(round(flop)) as flop,
    fadd / nullif(flop, 0) as fadd_of_flop_ratio,
    flop / nullif(fadd, 0) as underestimate_factor,
    samples,
    as_bigint(round(fadd / nullif(samples, 0))) as fadd_per_sample,
    as_bigint(round(flop / nullif(samples, 0))) as flop_per_sample,
    case
        when fadd is null then 'FADD was not counted in every launch'
        when flop is null then 'FADD is there, and the FLOPs are not: other counters are missing'
        when flop = 0 then 'no launch computed anything'
        when fadd = 0 then 'FADD alone is 0, and the FLOPs are not'
        when flop < 1.05 * fadd then 'FADD alone is nearly all that was computed'
        else printf('FADD alone counts %.2f %% of the FLOPs: %.0f times too few', 100 * fadd / flop, flop / fadd)
    end as verdict,
    nullif(array_to_string(missing, ', '), '') as flop_missing
from sampled
order by run, rank, device
