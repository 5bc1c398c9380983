-- FLOPs and bytes of ops by the shapes of what they take, without counters: which ops compute how fast, and what is not known.
-- A row is one run, rank, device (that of a call's first GPU row, NULL without any), op and shapes; calls that cost other FLOPs,
-- as with another stride, have rows of their own. The formula is the first of queries/op_formulas.csv whose pattern is the op's
-- name. An op inside one that has a formula is part of it, and so is a kernel that it launches (see op_summary). Ops without a
-- formula have a row a name where they launch GPU rows themselves, and what no op launched has one without a name, so that
-- gpu_ns adds up to the durations of all GPU rows. Rates are of busy_ns, in which GPU rows of one call that run at once count
-- once. `least_bytes` reads each tensor once and writes each result once, so that most_flop_per_byte is an upper bound of the
-- intensity. Shapes have to be recorded: record_shapes=True of the PyTorch profiler.
-- /// query
-- title = "FLOPs by shapes"
-- needs = ["ops"]
-- subject = "roofline"
-- show = ["run", "rank", "op", "shapes", "calls", "gpu_ns", "flop", "achieved_gflop_per_s"]
-- chart = { kind = "bars", x = "op", y = ["flop"], by = "run" }
-- [params]
-- common = ["run", "rank"]
-- op_kind = { type = "text", example = "gemm", about = "only ops of this kind: gemm, convolution, attention, norm, softmax, elementwise, reduction, embedding, copy, generated" }
-- ceilings = "common"
-- ceilings_run = "common"
-- [columns]
-- common = ["run", "rank", "device"]
-- op = "Op name; NULL for GPU rows that no op launched."
-- shapes = "Sizes of what it takes, as recorded; NULL where the op has no formula."
-- types = "Types of what it takes, as recorded; NULL where the op has no formula."
-- kind = "Kind of the formula; NULL without one."
-- formula = "Which formula of op_formulas; NULL without one."
-- calls = "Calls that lie in no other op with a formula; of ops without one, those that launch GPU rows themselves."
-- op_ns = "Their durations on the CPU, added up."
-- gpu_ns = "Durations of the GPU rows launched inside them, added up."
-- busy_ns = "Time in which at least one of a call's GPU rows ran, added up over the calls."
-- gpu_rows = "GPU rows launched inside them: kernels, copies, memsets and whole graphs."
-- flop = "FLOPs of all calls; a multiply-add is two. NULL without a formula, and where shapes are not recorded."
-- least_bytes = "Bytes of all calls: each tensor that is read, and each result, once."
-- achieved_gflop_per_s = "flop / busy_ns."
-- least_gb_per_s = "least_bytes / busy_ns."
-- most_flop_per_byte = "flop / least_bytes."
-- precision = "The precision whose peak is taken: that of the first argument, of products on tensor cores; NULL for other kinds than gemm, convolution and attention."
-- peak_gflop_per_s = "What the device could reach in that precision; fp32 that is computed as tf32 exceeds it."
-- of_peak_ratio = "achieved_gflop_per_s / peak_gflop_per_s."
-- peak_source = "specification or measured."
-- of_gpu_activity_ratio = "gpu_ns / gpu_activity_ns."
-- gpu_activity_ns = "Durations of all GPU rows of the rank, added up."
-- covered_ns = "gpu_ns of the rank's rows with flop, added up."
-- covered_ratio = "covered_ns / gpu_activity_ns."
-- ///
with executions as not materialized (
    select run, source, rank, pid, tid, name, start_ns, end_ns, external_id, input_shapes, input_types, args
    from ops
    where matches(run, $run) and matches(rank, $rank)
),
names as materialized (
    select n.name, f.rule, f.formula, f.kind, f.reads_values
    from (select name, op_formula(name) as rule from (select distinct name from executions)) as n
    left join op_formulas as f on n.rule = f.rule
),
described as not materialized (  -- what an op without a formula takes does not matter
    select
        e.run, e.source, e.rank, e.pid, e.tid, e.name, e.start_ns, e.end_ns, e.external_id, n.rule,
        case when n.rule is not null then e.input_shapes end as shapes,
        case when n.rule is not null then e.input_types end as types,
        case when n.reads_values then e.args->>'$."Concrete Inputs"' end as argument_values
    from executions as e
    join hint_small('names') as n on e.name is not distinct from n.name
),
kinds as materialized (
    select row_number() over () as kind, run, source, rank, pid, tid, name, rule, shapes, types, argument_values
    from (
        select run, source, rank, pid, tid, name, rule, shapes, types, argument_values
        from described
        group by all
        having count(*) > 0  -- always so; but DuckDB then takes the kinds for few, and builds no hash table on the calls
    )
),
numbered_calls as materialized (  -- the last 31 bits of a call's id are its kind, those before its place in the trace
    select (e.place << 31) + k.kind as id, e.start_ns, e.end_ns, e.external_id
    from (select *, row_number() over () as place from described) as e
    join kinds as k
        on e.run = k.run and e.source = k.source and e.rank = k.rank and e.pid is not distinct from k.pid
        and e.tid is not distinct from k.tid and e.name is not distinct from k.name and e.shapes is not distinct from k.shapes
        and e.types is not distinct from k.types and e.argument_values is not distinct from k.argument_values
),
calls as not materialized (
    select c.id, k.run, k.source, k.pid, k.tid, k.rule is not null as part, c.start_ns, c.end_ns, c.external_id
    from numbered_calls as c
    join kinds as k on c.id & 2147483647 = k.kind
),
calls_with_formula as not materialized (
    from calls where part
),
outer_ids as materialized (
    from outermost('calls_with_formula')
),
counted_calls as materialized (
    select * from calls_with_formula where id in (from outer_ids)
),
activity as materialized (
    from selected_activity($run, $rank)
),
api as not materialized (
    from selected_calls($run, $rank)
),
points as materialized (
    from launch_points('activity', 'api', 'calls')
),
in_counted as materialized (
    from innermost('counted_calls', 'points')
),
other_points as materialized (
    from points where id not in (select id from in_counted)
),
in_others as (
    select p.id, coalesce(i.parent, p.op) as parent
    from other_points as p
    left join innermost('calls', 'other_points') as i on p.id = i.id
),
launchers as (
    from in_counted union all from in_others where parent is not null
),
by_call as materialized (
    select
        id, min(device) as device, sum(gpu_ns) as gpu_ns, count(*) as gpu_rows,
        sum(greatest(0, start_ns + gpu_ns - greatest(start_ns, coalesce(reached_ns, start_ns)))) as busy_ns
    from (
        select
            l.parent as id, a.device, a.start_ns, a.gpu_ns,
            max(a.start_ns + a.gpu_ns) over (
                partition by l.parent order by a.start_ns rows between unbounded preceding and 1 preceding
            ) as reached_ns
        from activity as a
        join launchers as l on a.id = l.id
    )
    group by id
),
by_kind as (
    select
        coalesce(c.id, b.id) & 2147483647 as kind, b.device,
        count(*) as calls,
        sum(b.gpu_ns) as gpu_ns,
        sum(b.busy_ns) as busy_ns,
        sum(b.gpu_rows) as gpu_rows
    from counted_calls as c
    full join by_call as b on c.id = b.id
    group by coalesce(c.id, b.id) & 2147483647, b.device
),
arguments as materialized (  -- columns of their own: a macro repeats an expression that it takes at each use
    select
        kind, run, rank, name, rule, shapes, types,
        recorded_arguments(shapes) as listed,
        recorded_sizes(listed) as s,
        recorded_counts(listed) as n,
        recorded_type_bytes(types) as z,
        recorded_texts(argument_values) as c
    from kinds
),
costs as materialized (
    select
        kind, run, rank, name, rule, shapes, types,
        case when listed is not null then formula_flop(rule, s, n, z, c) end as flop,
        case when listed is not null then formula_bytes(rule, s, n, z, c) end as least_bytes
    from arguments
),
durations as (
    select c.id & 2147483647 as kind, b.device, sum(case when has_valid_interval(c.start_ns, c.end_ns) then c.end_ns - c.start_ns end) as op_ns
    from numbered_calls as c
    left join by_call as b on c.id = b.id
    where c.id in (from outer_ids) or b.id is not null
    group by c.id & 2147483647, b.device
),
summed as (
    select
        c.run, c.rank, b.device, c.name as op, c.shapes, c.types, c.rule, c.flop, c.least_bytes,
        sum(b.calls) as calls, sum(d.op_ns) as op_ns, sum(b.gpu_ns) as gpu_ns, sum(b.busy_ns) as busy_ns,
        sum(b.gpu_rows) as gpu_rows
    from by_kind as b
    join costs as c on b.kind = c.kind
    left join durations as d on b.kind = d.kind and b.device is not distinct from d.device
    group by c.run, c.rank, b.device, c.name, c.shapes, c.types, c.rule, c.flop, c.least_bytes
    union all
    select run, rank, device, null, null, null, null, null, null, 0, null, sum(gpu_ns), null, count(*)
    from activity
    where id not in (select id from launchers)
    group by run, rank, device
),
totals as (
    select
        run, rank,
        sum(gpu_ns) as gpu_activity_ns,
        sum(gpu_ns) filter (flop is not null) as covered_ns
    from summed
    group by run, rank
),
typed as (
    select
        s.*, f.formula, f.kind,
        case
            when f.kind in ('gemm', 'convolution', 'attention')
                then case recorded_texts(s.types)[1]
                    when 'c10::BFloat16' then 'tensor_bf16'
                    when 'c10::Half' then 'tensor_fp16'
                    when 'float' then 'fp32'
                    when 'double' then 'tensor_fp64'
                    when 'signed char' then 'tensor_int8'
                    else case when recorded_texts(s.types)[1] like 'c10::Float8%' then 'tensor_fp8' end
                end
        end as precision
    from summed as s
    left join op_formulas as f on s.rule = f.rule
),
cards as materialized (from card_facts('summed', null)),
peaked as (
    select
        t.*,
        case when coalesce($ceilings, 'specification') = 'specification' then p.per_s end as specified,
        case when coalesce($ceilings, 'measured') = 'measured' then m.per_s end as measured,
        coalesce(specified, measured) as peak,
        case when specified is not null then 'specification' when measured is not null then 'measured' end as peak_source
    from typed as t
    left join specified_ceilings('cards') as p
        on t.run = p.run and t.rank = p.rank and t.device is not distinct from p.device and t.precision = p.ceiling
    left join measured_ceilings('cards', $ceilings_run) as m
        on t.run = m.run and t.rank = m.rank and t.device is not distinct from m.device and t.precision = m.ceiling
)
select
    p.run, p.rank, p.device, p.op, p.shapes, p.types, p.kind, p.formula,
    as_bigint(p.calls) as calls,
    as_bigint(p.op_ns) as op_ns,
    as_bigint(coalesce(p.gpu_ns, 0)) as gpu_ns,
    as_bigint(coalesce(p.busy_ns, 0)) as busy_ns,
    as_bigint(coalesce(p.gpu_rows, 0)) as gpu_rows,
    as_bigint(p.flop * p.calls) as flop,
    as_bigint(p.least_bytes * p.calls) as least_bytes,
    p.flop * p.calls / nullif(p.busy_ns, 0) as achieved_gflop_per_s,
    p.least_bytes * p.calls / nullif(p.busy_ns, 0) as least_gb_per_s,
    p.flop / nullif(p.least_bytes, 0) as most_flop_per_byte,
    p.precision,
    p.peak as peak_gflop_per_s,
    p.flop * p.calls / nullif(p.busy_ns, 0) / p.peak as of_peak_ratio,
    p.peak_source,
    p.gpu_ns / nullif(t.gpu_activity_ns, 0) as of_gpu_activity_ratio,
    as_bigint(coalesce(t.gpu_activity_ns, 0)) as gpu_activity_ns,
    as_bigint(coalesce(t.covered_ns, 0)) as covered_ns,
    coalesce(t.covered_ns, 0) / nullif(t.gpu_activity_ns, 0) as covered_ratio
from peaked as p
join totals as t on p.run = t.run and p.rank = t.rank
where matches(p.kind, $op_kind)
order by p.run, p.rank, coalesce(p.gpu_ns, 0) desc, p.flop * p.calls desc nulls last, p.op, p.device, p.shapes, p.types, p.flop
