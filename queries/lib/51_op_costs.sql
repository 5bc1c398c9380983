-- What ops cost by the shapes of what they take.

-- product_precision(kind, types): the precision of products on tensor cores, by the type of an op's first argument; NULL for other
-- kinds of formulas than gemm, convolution and attention. Products of fp32 may be computed as tf32; shapes do not show it.
create or replace macro product_precision(kind, types) as
    case
        when kind in ('gemm', 'convolution', 'attention')
            then case recorded_texts(types)[1]
                when 'c10::BFloat16' then 'tensor_bf16'
                when 'c10::Half' then 'tensor_fp16'
                when 'float' then 'fp32'
                when 'double' then 'tensor_fp64'
                when 'signed char' then 'tensor_int8'
                else case when recorded_texts(types)[1] like 'c10::Float8%' then 'tensor_fp8' end
            end
    end;

-- is_bus_copy(kind, direction): whether a GPU row is a copy that leaves the memory of the device, which PCIe or NVLink bounds.
create or replace macro is_bus_copy(kind, direction) as
    kind = 'memcpy' and direction in ('HtoD', 'DtoH', 'HtoA', 'AtoH', 'PtoP', 'UVM HtoD', 'UVM DtoH');

-- op_costs(executions, activity, calls): FLOPs and bytes of ops (rows of `ops`) with the GPU rows (of filtered_activity()) that
-- they launch by API calls (of filtered_calls()). A row is one run, rank, device (that of a call's first GPU row), op, shapes and
-- types, whose calls cost the same: `flop` and `least_bytes` are those of one call. An op inside one that has a formula is part of
-- it. Ops without a formula have a row where they launch GPU rows themselves, and what no op launched has one without a name.
-- busy_ns is the time in which at least one of a call's GPU rows ran; gpu_ns adds up their durations, and bus_ns those of copies
-- that leave the memory of the device.
create or replace macro op_costs(executions, activity, calls) as table
with _op_names as materialized (
    select n.name, f.rule, f.formula, f.kind, f.reads_values
    from (select name, op_formula(name) as rule from (select distinct name from query_table(executions))) as n
    left join op_formulas as f on n.rule = f.rule
),
_op_described as not materialized (  -- what an op without a formula takes does not matter
    select
        e.run, e.source, e.rank, e.pid, e.tid, e.name, e.start_ns, e.end_ns, e.external_id, n.rule,
        case when n.rule is not null then e.input_shapes end as shapes,
        case when n.rule is not null then e.input_types end as types,
        case when n.reads_values then e.args->>'$."Concrete Inputs"' end as argument_values
    from query_table(executions) as e
    join hint_small('_op_names') as n on e.name is not distinct from n.name
),
_op_threads as materialized (
    from threads(executions)
),
_op_kinds as materialized (
    select row_number() over () as kind, e.*, t.thread
    from (
        select run, source, rank, pid, tid, name, rule, shapes, types, argument_values
        from _op_described
        group by all
        having count(*) > 0  -- always so; but DuckDB then takes the kinds for few, and builds no hash table on the calls
    ) as e
    join hint_small('_op_threads') as t
        on e.run = t.run and e.source = t.source and e.pid is not distinct from t.pid and e.tid is not distinct from t.tid
),
_op_calls as materialized (  -- the last 31 bits of a call's id are its kind, those before its place in the trace
    select
        (e.place << 31) + k.kind as id, k.thread, k.rule is not null as has_formula, e.start_ns, e.end_ns, e.external_id
    from (select *, row_number() over () as place from _op_described) as e
    join _op_kinds as k
        on e.run = k.run and e.source = k.source and e.rank = k.rank and e.pid is not distinct from k.pid
        and e.tid is not distinct from k.tid and e.name is not distinct from k.name and e.shapes is not distinct from k.shapes
        and e.types is not distinct from k.types and e.argument_values is not distinct from k.argument_values
),
_op_named_calls as not materialized (
    select c.id, t.run, t.source, t.pid, t.tid, c.start_ns, c.external_id
    from _op_calls as c
    join hint_small('_op_threads') as t using (thread)
),
_op_with_formula as not materialized (
    select thread as lane, id, start_ns, end_ns from _op_calls where has_formula
),
_op_counted_calls as materialized (
    select lane as thread, id, start_ns, end_ns from lane_outermost('_op_with_formula')
),
_op_points as materialized (
    select p.id, t.thread, p.at_ns, p.op
    from launch_points(activity, calls, '_op_named_calls') as p
    join hint_small('_op_threads') as t
        on p.run = t.run and p.source = t.source and p.pid is not distinct from t.pid and p.tid is not distinct from t.tid
),
_op_in_counted as materialized (
    from thread_innermost('_op_counted_calls', '_op_points')
),
_op_other_points as materialized (
    from _op_points where id not in (select id from _op_in_counted)
),
_op_in_others as (
    select p.id, coalesce(i.parent, p.op) as parent
    from _op_other_points as p
    left join thread_innermost('_op_calls', '_op_other_points') as i on p.id = i.id
),
_op_launchers as (
    from _op_in_counted union all from _op_in_others where parent is not null
),
_op_by_call as materialized (
    select
        id, min(device) as device, sum(gpu_ns) as gpu_ns, sum(case when is_bus_copy then gpu_ns else 0 end) as bus_ns,
        count(*) as gpu_rows,
        sum(greatest(0, start_ns + gpu_ns - greatest(start_ns, coalesce(reached_ns, start_ns)))) as busy_ns
    from (
        select
            l.parent as id, a.device, a.start_ns, a.gpu_ns, is_bus_copy(a.kind, a.name) as is_bus_copy,
            max(a.start_ns + a.gpu_ns) over (
                partition by l.parent order by a.start_ns rows between unbounded preceding and 1 preceding
            ) as reached_ns
        from query_table(activity) as a
        join _op_launchers as l on a.id = l.id
    )
    group by id
),
_op_by_kind as (
    select
        coalesce(c.id, b.id) & 2147483647 as kind, b.device,
        count(*) as calls,
        sum(b.gpu_ns) as gpu_ns,
        sum(b.bus_ns) as bus_ns,
        sum(b.busy_ns) as busy_ns,
        sum(b.gpu_rows) as gpu_rows
    from _op_counted_calls as c
    full join _op_by_call as b on c.id = b.id
    group by coalesce(c.id, b.id) & 2147483647, b.device
),
_op_texts as materialized (  -- what formulas read: the ops of a thousand ranks take the same
    select row_number() over () as text, run, name, rule, shapes, types, argument_values
    from (select distinct run, name, rule, shapes, types, argument_values from _op_kinds)
),
_op_arguments as materialized (  -- columns of their own: a macro repeats an expression that it takes at each use
    select
        text, run, name, rule, shapes, types, argument_values,
        case when shapes not like '%-%' then recorded_arguments(shapes) end as listed,  -- no size is below 0
        recorded_sizes(listed) as s,
        try(recorded_counts(listed)) as n,
        recorded_type_bytes(types) as z,
        recorded_texts(argument_values) as c
    from _op_texts
),
_op_gradients as materialized (  -- of backward convolutions and the ops inside, old torch records sizes alone
    select distinct a.run, f.formula, a.s, a.n
    from _op_arguments as a
    join op_formulas as f using (rule)
    where
        f.formula in ('vendor_convolution_backward', 'convolution_backward_input', 'convolution_backward_weight')
        and a.listed is not null
),
_op_outputs as (  -- the output of a convolution has the size of its gradient
    select run, s[1] as input, s[3] as weight, max(n[2]) as outputs
    from _op_gradients
    where formula = 'vendor_convolution_backward'
    group by run, s[1], s[3]
    having min(n[2]) = max(n[2])
),
_op_requests as (  -- which gradients are computed: of the sizes of an op there is one inside
    select p.run, p.s, count(distinct c.formula) as gradients
    from (from _op_gradients where formula = 'vendor_convolution_backward') as p
    join (from _op_gradients where formula <> 'vendor_convolution_backward') as c
        on p.run = c.run and p.s[2] = c.s[2] and c.s[3] = case c.formula when 'convolution_backward_input' then p.s[3] else p.s[1] end
    group by p.run, p.s
),
_op_costs as not materialized (
    select
        text, a.run, name, rule, shapes, types, argument_values,
        {'outputs': o.outputs, 'gradients': g.gradients} as r,
        try(case when listed is not null then formula_flop(rule, a.s, n, z, c, r) end) as computed_flop,
        try(case when listed is not null then formula_bytes(rule, a.s, n, z, c, r) end) as computed_bytes
    from _op_arguments as a
    left join _op_outputs as o on a.run = o.run and a.s[1] = o.input and a.s[2] = o.weight
    left join _op_requests as g on a.run = g.run and a.s = g.s
),
_op_believable_costs as materialized (  -- only damaged sizes and numbers reach 2^62 or are below 0
    select
        * exclude (computed_flop, computed_bytes),
        case when computed_flop between 0 and 4611686018427387904 then computed_flop end as flop,
        case when computed_bytes between 0 and 4611686018427387904 then computed_bytes end as least_bytes
    from _op_costs
),
_op_numbered_costs as materialized (
    select *, dense_rank() over (order by run, name, shapes, types, rule, flop, least_bytes) as cost from _op_believable_costs
),
_op_costs_of_kinds as materialized (  -- `cost` has one number where all columns of the answer are the same
    select k.kind, k.rank, b.cost
    from _op_kinds as k
    join hint_small('_op_numbered_costs') as b
        on k.run = b.run and k.name is not distinct from b.name and k.rule is not distinct from b.rule
        and k.shapes is not distinct from b.shapes and k.types is not distinct from b.types
        and k.argument_values is not distinct from b.argument_values
),
_op_durations as (
    select
        c.id & 2147483647 as kind, b.device,
        sum(case when has_valid_interval(c.start_ns, c.end_ns) then c.end_ns - c.start_ns end) as op_ns
    from _op_calls as c
    left join _op_by_call as b on c.id = b.id
    where c.id in (select id from _op_counted_calls) or b.id is not null
    group by c.id & 2147483647, b.device
),
_op_sums as (
    select
        c.cost, c.rank, b.device,
        sum(b.calls) as calls, sum(d.op_ns) as op_ns, sum(b.gpu_ns) as gpu_ns, sum(b.busy_ns) as busy_ns,
        sum(b.gpu_rows) as gpu_rows, sum(b.bus_ns) as bus_ns
    from _op_by_kind as b
    join _op_costs_of_kinds as c on b.kind = c.kind
    left join _op_durations as d on b.kind = d.kind and b.device is not distinct from d.device
    group by c.cost, c.rank, b.device
),
_op_cost_names as materialized (
    select cost, any_value(run) as run, any_value(name) as name, any_value(shapes) as shapes, any_value(types) as types,
        any_value(rule) as rule, any_value(flop) as flop, any_value(least_bytes) as least_bytes
    from _op_numbered_costs
    group by cost
),
_op_summed as (
    select
        c.run, s.rank, s.device, c.name as op, c.shapes, c.types, c.rule, c.flop, c.least_bytes,
        s.calls, s.op_ns, s.gpu_ns, s.busy_ns, s.gpu_rows, s.bus_ns
    from _op_sums as s
    join hint_small('_op_cost_names') as c using (cost)
    union all
    select run, rank, device, null, null, null, null, null, null, 0, null, sum(gpu_ns), null, count(*), null
    from query_table(activity)
    where id not in (select id from _op_launchers)
    group by run, rank, device
)
select
    s.run, s.rank, s.device, s.op, s.shapes, s.types, f.formula, f.kind, product_precision(f.kind, s.types) as precision,
    s.flop, s.least_bytes, s.calls, s.op_ns, s.gpu_ns, s.busy_ns, s.gpu_rows, s.bus_ns
from _op_summed as s
left join op_formulas as f on s.rule = f.rule;
