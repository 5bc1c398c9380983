-- How near each kernel comes to what its GPU can do, and whether memory or arithmetic holds it up.
-- A row is one run, rank, device, kernel and precision; `precision = 'all'` is the kernel's total over the precisions of
-- floating point. A precision has a row where it did something, or where only some of its metrics were taken. FLOPs are
-- what the GPU executed, padding and recomputation included, a multiply-add counted as two; where a metric is missing they
-- are NULL, and `flop_missing` names it. Integer tensor operations have rows of their own and are in no total.
-- Ceilings are measured ones (of the same run, else the newest run on the same card, else on a card of that name), as
-- continuous work sustains them (see `ceiling_basis`); else the report's own peaks at the launch's clock, else the data sheet's. A report that does not name its card is of that of
-- --timeline, else of the runs of its program, where they name one. --run takes the run that counted, or one that recorded
-- times of the same program: the counts are then those of the newest run that counted that program, and the times its own. A total's ceiling is that of the precision which would
-- take the longest, as if all pipes ran at once.
-- With --from shapes a row is an op in place of a kernel: its FLOPs by the shapes that it takes (see op_flop), the least bytes
-- that it has to move, and the time of its GPU rows in the trace. The intensity is then an upper bound, so an op bound by memory
-- is certainly so. Ops without a formula have a row without FLOPs. `flop_source` distinguishes both kinds of rows.
-- ncu slows down what it counts: caches are flushed, kernels run one at a time, by default the clock is locked. So a share
-- of a ceiling that was measured at another clock is NULL unless --mixed-clocks; --timeline takes the time from a trace of
-- the same program.
-- /// query
-- title = "Roofline"
-- needs = ["kernel_metrics"]
-- show = [
--     "run", "kernel", "precision", "dur_ns", "intensity_flop_per_byte",
--     "achieved_gflop_per_s", "of_ceiling_ratio", "bound",
-- ]
-- chart = { kind = "roofline", x = "intensity_flop_per_byte", y = ["achieved_gflop_per_s"], by = "device" }
-- [params]
-- common = ["run", "rank", "device"]
-- per = { default = "kernel", choices = ["kernel", "launch"], about = "a row adds up all launches of a kernel, or is one" }
-- from = { choices = ["counters", "shapes", "both"], needs = { shapes = ["ops", "kernels"], both = ["kernel_metrics", "ops"] } }
-- half = "common"
-- ceilings = "common"
-- ceilings_run = "common"
-- timeline = { type = "text", about = "the run with the kernels' times, of the same program" }
-- mixed_clocks = { default = false, about = "also compare times at one clock with ceilings measured at another" }
-- [columns]
-- common = ["run", "rank", "device", "kernel"]
-- precision = "fp64, fp32, fp16; tensor_ and the type that the tensor cores multiplied; all is the kernel's total: add up rows of all, or of the others. An op of shapes has one precision, so its rows have the same FLOPs: tensor_ of products, else fp64 of doubles and fp32 of all other types."
-- launches = "Profiled launches; of ops their calls."
-- flop = "Floating-point operations of all launches; NULL where a metric is missing."
-- dram_bytes = "Bytes read from and written to device memory, of the whole kernel; of ops the least bytes, NULL where most GPU time of a call is copies between host and device or two devices."
-- dur_ns = "Time of the launches, added up."
-- intensity_flop_per_byte = "common"
-- achieved_gflop_per_s = "common"
-- ceiling_gflop_per_s = "What arithmetic could reach."
-- ceiling_gb_per_s = "What device memory could reach."
-- of_ceiling_ratio = "achieved_gflop_per_s / attainable_gflop_per_s."
-- bound = "memory or compute: which ceiling is the lower one at this intensity."
-- ceiling_source = "measured, ncu or specification; both, where arithmetic and memory differ."
-- time_source = "ncu, ncu cycles (cycles over their rate) or timeline."
-- clock_control = "What ncu did to the clock: base, boost or none; NULL where unknown."
-- flop_missing = "The metrics without which flop is NULL; of ops formula or shapes."
-- attainable_gflop_per_s = "The lower of ceiling_gflop_per_s and intensity_flop_per_byte times ceiling_gb_per_s."
-- ridge_flop_per_byte = "ceiling_gflop_per_s / ceiling_gb_per_s: from here on arithmetic is the lower ceiling."
-- achieved_gb_per_s = "common"
-- of_bandwidth_ratio = "achieved_gb_per_s / ceiling_gb_per_s."
-- class = "Class of the name by the classifier; unclassified where no rule matches it. Of ops with a formula its kind."
-- l2_bytes = "Bytes through the second-level cache."
-- l1_bytes = "Bytes through the first-level caches."
-- l2_intensity_flop_per_byte = "flop / l2_bytes."
-- l1_intensity_flop_per_byte = "flop / l1_bytes."
-- ceiling_l2_gb_per_s = "What the second-level cache could reach."
-- ceiling_l1_gb_per_s = "What the first-level caches could reach."
-- theoretical_gflop_per_s = "What arithmetic could reach by the report's own peaks, else by the data sheet."
-- theoretical_gb_per_s = "What device memory could reach by the report's own peaks, else by the data sheet."
-- ceiling_precision = "The precision whose ceiling counts for this row."
-- ceiling_run = "The run that the measured ceilings are of."
-- device_name = "common"
-- flop_source = "shapes (of ops), counted, rate (rates times the time) or estimated (V100: 512 a tensor instruction)."
-- launch = "Number of the launch, where a row is one."
-- card_run = "The run that names the card, where the report does not: --timeline, else one of the same program."
-- theoretical_source = "ncu or specification: whose the theoretical ceilings are; with --ceilings only those of that source."
-- ceiling_basis = "What a measured ceiling is: sustained (the median under continuous load), median (of all repetitions) or best; both, where arithmetic and memory differ."
-- best_gflop_per_s = "What the best repetition of the measured arithmetic reached, as a burst: beside the ceiling, not in it."
-- best_gb_per_s = "What the best repetition of the measured memory bandwidth reached."
-- shapes = "Sizes of what the op takes, where a row is one launch."
-- timeline_run = "The run that the times are of, where it is not the one that counted."
-- [report]
-- section = "roofline"
-- order = 1
-- unknown = "Whether memory or arithmetic holds the kernels back is not known: it takes their operations (see `flop_missing`), their bytes, and ceilings of the device, which `tracelab collect ceilings` measures."
-- [[report.findings]]
-- when = "case when precision = 'all' then bound in ('memory', 'compute') end"
-- by = "dur_ns"
-- text = "[{where}: ]of the kernels counted, {kernel} takes the longest: it is bound by {bound}, at {achieved_gflop_per_s} with an intensity of {intensity_flop_per_byte}[, {of_ceiling_ratio %} of what is attainable there]."
-- advice = "Bound by memory: move fewer bytes (fuse, lower precision). Bound by compute: tensor cores, or less arithmetic. Far below both: launch shape and latency."
-- ///
with counted as materialized (
    from counted_pairs($run)
),
profiled as (
    select * replace (row_number() over () as id)  -- a number joins faster than the four columns that an id is made of
    from ncu_launches
    where $from <> 'shapes' and run in (select ncu_run from counted) and matches(rank, $rank) and matches(device, $device)
),
launches as materialized (
    select *, dense_rank() over (order by run, rank, device, name, case when $per = 'launch' then id end) as point
    from profiled
),
-- /// if from = shapes, both
replayed as materialized (
    from known_replays($run, $rank, null) where $from <> 'counters'
),
timed_ops as not materialized (
    from scope_ops($run, $rank) where $from <> 'counters'
),
activity as materialized (
    from filtered_activity($run, $rank) where $from <> 'counters'
),
api as not materialized (
    from filtered_calls($run, $rank) where $from <> 'counters'
),
costs as materialized (
    select
        *,
        -dense_rank() over (order by run, rank, device, op, case when $per = 'launch' then shapes end) as point,
        coalesce(precision, case recorded_texts(types)[1] when 'double' then 'fp64' else 'fp32' end) as computed_in
    from all_op_costs('timed_ops', 'activity', 'api', 'replayed')
    where gpu_rows > 0 and matches(device, $device)
),
-- /// end
on_cards as (
    select run, rank, device from launches
    -- /// if from = shapes, both
    union all
    select run, rank, device from costs
    -- /// end
),
cards as materialized (from card_facts('on_cards', $timeline)),
executions as (
    select k.*, c.ncu_run
    from kernels as k
    join counted as c on k.run = coalesce($timeline, c.timed_run)
    where has_valid_interval(k.start_ns, k.end_ns)
),
on_timeline as (
    select id, sum(dur_ns) / sum(executions) as mean_ns
    from match_launches('executions', 'launches')
    where match in ('exact', 'periodic', 'shape', 'other_memory', 'function')
    group by id
),
points as materialized (
    select
        l.point,
        any_value(l.run) as run,
        any_value(l.rank) as rank,
        any_value(l.device) as device,
        any_value(l.name) as name,
        case when $per = 'launch' then any_value(l.launch) end as launch,
        count(*) as launches,
        count(t.mean_ns) = count(*) as is_on_timeline,
        as_bigint(round(case when is_on_timeline then sum(t.mean_ns) else complete_sum(l.exact_ns) end)) as dur_ns,
        case when is_on_timeline then 'timeline' else max(l.time_source) end as time_source,
        as_bigint(complete_sum(l.dram_bytes)) as dram_bytes,
        as_bigint(complete_sum(l.l2_bytes)) as l2_bytes,
        as_bigint(complete_sum(l.l1_bytes)) as l1_bytes,
        case when count(distinct coalesce(l.clock_control, '')) = 1 then any_value(l.clock_control) end as clock_control,
        null::varchar as kind,
        null::varchar as shapes
    from launches as l
    left join on_timeline as t on l.id = t.id
    group by l.point
    -- /// if from = shapes, both
    union all by name
    select
        point,
        any_value(run) as run,
        any_value(rank) as rank,
        any_value(device) as device,
        any_value(op) as name,
        as_bigint(sum(calls)) as launches,
        as_bigint(sum(coalesce(busy_ns, gpu_ns))) as dur_ns,
        'timeline' as time_source,
        as_bigint(complete_sum(case when not is_bus_copy then least_bytes * calls end)) as dram_bytes,
        any_value(kind) as kind,
        case when $per = 'launch' then any_value(shapes) end as shapes
    from costs
    group by point
    -- /// end
),
flops as materialized (
    select l.point, f.id, f.precision, f.flop, f.origin, f.missing, f.is_shown
    from launch_flop('launches', $half) as f
    join launches as l on f.id = l.id
),
parts as materialized (  -- a launch whose total is known, and that has no row of a precision, did nothing in it
    select
        p.point, p.precision,
        complete_sum(coalesce(f.flop, case when f.id is null then t.flop * 0 end)) as flop,
        string_agg(distinct f.origin, ' + ' order by f.origin) filter (f.flop > 0) as flop_source,
        list_sort(list_distinct(flatten(list(coalesce(f.missing, []))))) as missing
    from (select point, precision from flops group by point, precision having bool_or(is_shown)) as p
    join flops as t on p.point = t.point and t.precision = 'all'
    left join flops as f on t.id = f.id and p.precision = f.precision
    group by p.point, p.precision
    -- /// if from = shapes, both
    union all
    select
        point, precision,
        complete_sum(flop * calls),
        'shapes',
        list_sort(list(distinct case when kind is null or least_bytes is not null then 'formula' else 'shapes' end)
            filter (flop is null))
    from (select * exclude (precision), unnest(['all', case when kind is not null then computed_in end]) as precision from costs)
    where precision is not null
    group by point, precision
    -- /// end
),
reported as (
    select l.point, k.ceiling, sum(k.per_s * l.exact_ns) / nullif(sum(l.exact_ns), 0) as per_s
    from launch_peaks('launches') as k
    join launches as l on k.id = l.id
    group by l.point, k.ceiling
),
limits as materialized (
    select
        p.point, c.ceiling,
        case when coalesce($ceilings, 'measured') = 'measured' then m.per_s end as measured_per_s,
        case when coalesce($ceilings, 'ncu') = 'ncu' then r.per_s end as reported_per_s,
        case when coalesce($ceilings, 'specification') = 'specification' then s.per_s end as specified_per_s,
        case
            when $ceilings is null then coalesce(r.per_s, s.per_s)
            when $ceilings = 'ncu' then r.per_s
            when $ceilings = 'specification' then s.per_s
        end as theoretical_per_s,
        case
            when theoretical_per_s is null then null
            when r.per_s is not null and coalesce($ceilings, 'ncu') = 'ncu' then 'ncu'
            else 'specification'
        end as theoretical_source,
        coalesce(measured_per_s, reported_per_s, specified_per_s) as per_s,
        case
            when measured_per_s is not null then 'measured'
            when reported_per_s is not null then 'ncu'
            when specified_per_s is not null then 'specification'
        end as source,
        case when measured_per_s is not null then m.of_run end as of_run,
        case when measured_per_s is not null then m.basis end as basis,
        case when measured_per_s is not null then m.best_per_s end as best_per_s
    from points as p
    cross join (select ceiling from ceiling_names union select precision from parts) as c
    left join measured_ceilings('cards', $ceilings_run) as m
        on p.run = m.run and p.rank = m.rank and p.device is not distinct from m.device and c.ceiling = m.ceiling
    left join specified_ceilings('cards') as s
        on p.run = s.run and p.rank = s.rank and p.device is not distinct from s.device and c.ceiling = s.ceiling
    left join reported as r on p.point = r.point and c.ceiling = r.ceiling
),
bottlenecks as (  -- the precision of a total that takes the longest at its ceiling, where the largest one has a ceiling
    select
        f.point,
        arg_max(f.precision, (f.flop / l.per_s, f.precision)) filter (l.per_s is not null) as precision,
        max(f.flop / l.per_s) as least_ns,
        max(f.flop / l.theoretical_per_s) as theoretical_ns,
        max(f.flop / l.best_per_s) as best_ns
    from parts as f
    join limits as l on f.point = l.point and f.precision = l.ceiling
    where f.flop > 0 and f.precision <> 'all' and not starts_with(f.precision, 'tensor_int')
    group by f.point
    having arg_max(coalesce(l.per_s, 0), f.flop) > 0
),
placed as (
    select
        p.*, f.precision, f.flop_source,
        nullif(array_to_string(f.missing, ', '), '') as flop_missing,
        as_bigint(round(f.flop)) as flop,
        coalesce(b.precision, l.ceiling) as ceiling_precision,
        case when f.precision = 'all' then f.flop / b.least_ns else l.per_s end as ceiling_gflop_per_s,
        case when f.precision = 'all' then f.flop / b.theoretical_ns else l.theoretical_per_s end
        as theoretical_gflop_per_s,
        case when f.precision = 'all' then f.flop / b.best_ns else l.best_per_s end as best_gflop_per_s,
        l.basis as arithmetic_basis,
        dram.basis as memory_basis,
        dram.best_per_s as best_gb_per_s,
        l.source as arithmetic_source,
        coalesce(l.theoretical_source, dram.theoretical_source) as theoretical_source,
        dram.source as memory_source,
        coalesce(l.of_run, dram.of_run) as ceiling_run,
        dram.per_s as ceiling_gb_per_s,
        dram.theoretical_per_s as theoretical_gb_per_s,
        l2.per_s as ceiling_l2_gb_per_s,
        l1.per_s as ceiling_l1_gb_per_s
    from points as p
    join parts as f on p.point = f.point
    left join bottlenecks as b on f.point = b.point and f.precision = 'all'
    left join limits as l on f.point = l.point and coalesce(b.precision, f.precision) = l.ceiling and l.ceiling <> 'all'
    left join limits as dram on p.point = dram.point and dram.ceiling = 'dram'
    left join limits as l2 on p.point = l2.point and l2.ceiling = 'l2'
    left join limits as l1 on p.point = l1.point and l1.ceiling = 'l1'
),
figures as (
    select
        *,
        flop / nullif(dram_bytes, 0) as intensity,
        flop / nullif(dur_ns, 0) as gflop_per_s,
        dram_bytes / nullif(dur_ns, 0) as gb_per_s,
        ceiling_gflop_per_s / ceiling_gb_per_s as ridge,
        case
            when $mixed_clocks then ['measured', 'ncu', 'specification']
            when time_source = 'timeline' then ['measured', 'specification']
            when clock_control = 'none' then ['measured', 'ncu', 'specification']
            else ['ncu', 'specification']
        end as comparable,
        case when ridge > 0 and intensity is not null then least(ceiling_gflop_per_s, intensity * ceiling_gb_per_s) end
        as attainable
    from placed
)
select
    f.run, f.rank, f.device,
    f.name as kernel,
    f.precision, f.launches, f.flop, f.dram_bytes, f.dur_ns,
    f.intensity as intensity_flop_per_byte,
    f.gflop_per_s as achieved_gflop_per_s,
    f.ceiling_gflop_per_s, f.ceiling_gb_per_s,
    case
        when list_has_all(f.comparable, [f.arithmetic_source, f.memory_source])
        then f.gflop_per_s / nullif(f.attainable, 0)
    end as of_ceiling_ratio,
    case when f.intensity < f.ridge or f.intensity = 0 then 'memory' when f.intensity >= f.ridge then 'compute' end
    as bound,
    case
        when f.arithmetic_source <> f.memory_source
        then f.arithmetic_source || ' (arithmetic), ' || f.memory_source || ' (memory)'
        else coalesce(f.arithmetic_source, f.memory_source)
    end as ceiling_source,
    f.time_source, f.clock_control, f.flop_missing,
    f.attainable as attainable_gflop_per_s,
    f.ridge as ridge_flop_per_byte,
    f.gb_per_s as achieved_gb_per_s,
    case when list_contains(f.comparable, f.memory_source) then f.gb_per_s / nullif(f.ceiling_gb_per_s, 0) end
    as of_bandwidth_ratio,
    coalesce(f.kind, c.class) as class, f.l2_bytes, f.l1_bytes,
    f.flop / nullif(f.l2_bytes, 0) as l2_intensity_flop_per_byte,
    f.flop / nullif(f.l1_bytes, 0) as l1_intensity_flop_per_byte,
    f.ceiling_l2_gb_per_s, f.ceiling_l1_gb_per_s, f.theoretical_gflop_per_s, f.theoretical_gb_per_s,
    case when f.ceiling_gflop_per_s is not null then f.ceiling_precision end as ceiling_precision,
    f.ceiling_run,
    d.name as device_name,
    case when f.flop is not null or f.flop_source = 'shapes' then f.flop_source end as flop_source,
    f.launch, d.card_run, f.theoretical_source,
    case
        when f.arithmetic_basis <> f.memory_basis
        then f.arithmetic_basis || ' (arithmetic), ' || f.memory_basis || ' (memory)'
        else coalesce(f.arithmetic_basis, f.memory_basis)
    end as ceiling_basis,
    f.best_gflop_per_s, f.best_gb_per_s, f.shapes,
    case when f.time_source = 'timeline' and f.flop_source is distinct from 'shapes' then t.run end as timeline_run
from figures as f
join classify('points') as c on f.name is not distinct from c.name
left join cards as d on f.run = d.run and f.rank = d.rank and f.device is not distinct from d.device
cross join (select coalesce($timeline, max(timed_run)) as run from counted) as t
order by f.run, f.rank, f.device, f.dur_ns desc nulls last, kernel, f.launch, f.shapes, f.precision, f.flop_source
