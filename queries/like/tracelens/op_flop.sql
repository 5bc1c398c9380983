-- FLOPs of products, convolutions and attention by shapes, as TraceLens (GEMM, CONV and SDPA of its performance report) counts them.
-- A row is one run, rank, device (that of a call's first GPU row, NULL without any), op and shapes. It differs from op_flop: the
-- sum with a bias counts, attention with a causal mask counts half of the matrix of scores, the backward pass of a convolution
-- counts both gradients, also where one of them is computed, and ops of other kinds are left out. So it needs fewer of the ops'
-- arguments recorded, and a share of the peak by it is another one.
-- /// query
-- title = "FLOPs by shapes, as defined by TraceLens"
-- needs = ["ops"]
-- subject = "roofline"
-- show = ["run", "rank", "op", "shapes", "calls", "gpu_ns", "flop", "achieved_gflop_per_s"]
-- chart = { kind = "bars", x = "op", y = ["flop"], by = "run" }
-- hints = [
--     { when = "not exists (from ops where input_shapes is not null and matches(run, $run) and matches(rank, $rank))", text = "no FLOPs are known: shapes are not recorded; record them with record_shapes=True of the PyTorch profiler" },
-- ]
-- [params]
-- common = ["run", "rank"]
-- [columns]
-- common = ["run", "rank", "device"]
-- sheet = "GEMM, CONV_fwd, CONV_bwd, SDPA_fwd or SDPA_bwd, as TraceLens names its tables."
-- op = "Op name."
-- shapes = "Sizes of what it takes, as recorded."
-- types = "Types of what it takes, as recorded."
-- calls = "Calls that lie in no other op with a formula."
-- gpu_ns = "Durations of the GPU rows launched inside them, added up."
-- flop = "FLOPs of all calls; NULL where op_flop has the reason why they are not known."
-- least_bytes = "Bytes of all calls: each tensor that is read, and each result, once."
-- achieved_gflop_per_s = "flop / busy_ns."
-- busy_ns = "Time in which at least one of a call's GPU rows ran, added up over the calls."
-- causal_calls = "Calls with a causal mask; NULL of other ops than attention, and where the argument is not recorded."
-- ///
with replayed as materialized (
    from known_replays($run, $rank, null)
),
executions as not materialized (
    select run, source, rank, pid, tid, name, start_ns, end_ns, external_id, input_shapes, input_types, args
    from scope_ops($run, $rank)
),
activity as materialized (
    from filtered_activity($run, $rank)
),
api as not materialized (
    from filtered_calls($run, $rank)
),
costs as materialized (
    select
        *,
        case when shapes not like '%-%' then recorded_arguments(shapes) end as listed,
        recorded_sizes(listed) as s,
        try(recorded_counts(listed)) as n
    from all_op_costs('executions', 'activity', 'api', 'replayed')
    where kind in ('gemm', 'convolution', 'attention')
),
masked as (  -- which share of the calls of an op and shapes has a causal mask
    select name, input_shapes, input_types, count(is_causal) as known, count(*) filter (is_causal) as causal
    from (
        select
            name, input_shapes, input_types,
            recorded_texts(args->>'$."Concrete Inputs"')[
                case
                    when name like '%flash_attention_forward' then 9
                    when name like '%dot_product_flash_attention%' and name not like '%backward' then 5
                    when name like '%dot_product_%_attention%' and name not like '%backward' then 7
                end
            ] = 'True' as is_causal
        from executions
        where contains(name, 'attention')
    )
    group by name, input_shapes, input_types
),
counted as (
    select
        c.*,
        case when c.kind = 'attention' and m.known > 0 then c.calls * m.causal / m.known end as causal_calls,
        case
            when c.formula = 'biased_product' then (c.flop + c.n[2] // c.s[2][-1] * c.s[3][-1]) * c.calls
            when c.formula = 'convolution_backward'
                then 2 * c.calls * case when c.flop in (g.gradient_flop, 2 * g.gradient_flop) then g.gradient_flop else g.transposed_flop end
            else c.flop * (c.calls - coalesce(causal_calls, 0) / 2)
        end as all_flop
    from costs as c
    left join masked as m
        on c.op = m.name and c.shapes is not distinct from m.input_shapes and c.types is not distinct from m.input_types
    cross join lateral (
        select
            case when c.formula = 'convolution_backward' then convolution_flop(c.n[1], c.s[3]) end as gradient_flop,
            case when c.formula = 'convolution_backward' then convolution_flop(c.n[2], c.s[3]) end as transposed_flop
    ) as g
)
select
    run, rank, device,
    case
        when kind = 'gemm' then 'GEMM'
        when kind = 'convolution' and contains(formula, 'backward') then 'CONV_bwd'
        when kind = 'convolution' then 'CONV_fwd'
        when contains(formula, 'backward') then 'SDPA_bwd'
        else 'SDPA_fwd'
    end as sheet,
    op, shapes, types,
    as_bigint(calls) as calls,
    as_bigint(coalesce(gpu_ns, 0)) as gpu_ns,
    as_bigint(all_flop) as flop,
    as_bigint(least_bytes * calls) as least_bytes,
    all_flop / nullif(busy_ns, 0) as achieved_gflop_per_s,
    as_bigint(coalesce(busy_ns, 0)) as busy_ns,
    as_bigint(causal_calls) as causal_calls
from counted
where gpu_rows > 0 or not exists (from around_ops)
order by run, rank, coalesce(gpu_ns, 0) desc, op, device, shapes, types, counted.flop, is_replayed
