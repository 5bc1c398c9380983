-- GPU time of ops that launch GPU rows themselves, as TraceLens (`ops_summary`, `ops_unique_args`) defines it.
-- A row is one run, rank and op; with --by shape also one kind of arguments. It differs from op_summary: only calls that launch
-- GPU rows themselves count, times are those of the GPU alone, and communication is left out. So is work that no recorded call
-- launched, and memsets of HIP: module_time has these, so its recompute_ns is longer by them. `subtree_ns` holds what ops inside these calls
-- launch. With --recompute calls that checkpointing computes anew have rows of their own: those in the forward pass of an
-- nn.Module within the backward pass, for which modules have to be recorded (with_stack=True).
-- /// query
-- title = "Op summary, as defined by TraceLens"
-- needs = ["ops"]
-- subject = "host"
-- show = ["run", "rank", "op", "calls", "direct_ns", "subtree_ns", "direct_percent", "cumulative_percent"]
-- chart = { kind = "bars", x = "op", y = ["direct_ns"], by = "run" }
-- [params]
-- common = ["run", "rank"]
-- by = { default = "name", choices = ["name", "shape"], about = "what the rows are of" }
-- recompute = { default = false, about = "list recomputed calls apart" }
-- [columns]
-- common = ["run", "rank"]
-- op = "Op name."
-- calls = "Calls that launch GPU rows themselves."
-- direct_ns = "Durations of the GPU rows that they launch themselves, added up."
-- subtree_ns = "Durations of the GPU rows launched inside these calls, added up."
-- direct_percent = "direct_ns in percent of direct_sum_ns."
-- cumulative_percent = "cumulative_ns in percent of direct_sum_ns."
-- shapes = "With --by shape sizes of what they take, as recorded."
-- types = "With --by shape types of what they take."
-- strides = "With --by shape strides of what they take."
-- argument_values = "With --by shape values of the arguments that are no tensors."
-- cumulative_ns = "direct_ns of this row and those before it, added up."
-- direct_sum_ns = "direct_ns of all ops of the rank, added up."
-- is_recompute = "With --recompute whether the calls are recomputed; else NULL."
-- ///
with activity as materialized (
    from filtered_activity($run, $rank)
    where not regexp_matches(coalesce(name, ''), 'nccl|rccl|cross_device_reduce', 'i')
),
api as not materialized (
    from filtered_calls($run, $rank) where coalesce(name, '') not like 'hipMemset%'
),
launched as materialized (
    from with_calls('activity', 'api') where call_start_ns is not null
),
calls as materialized (
    select
        row_number() over () as id, run, source, rank, pid, tid, name, start_ns, end_ns, external_id,
        case when $by = 'shape' then input_shapes end as shapes,
        case when $by = 'shape' then input_types end as types,
        case when $by = 'shape' then args->>'$."Input Strides"' end as strides,
        case when $by = 'shape' then args->>'$."Concrete Inputs"' end as argument_values
    from scope_ops($run, $rank)
),
direct as materialized (
    select l.op as id, sum(a.gpu_ns) as direct_ns
    from launching_ops('launched', 'calls') as l
    join activity as a on l.id = a.id
    group by l.op
),
launching_calls as materialized (
    select c.*, d.direct_ns from calls as c join direct as d using (id)
),
frames as materialized (
    from module_frames($run, $rank) where $recompute
),
engine_calls as materialized (
    select id, run, source, pid, tid, start_ns, end_ns from calls where $recompute and is_backward_node(name)
),
starts as not materialized (
    select id, run, source, pid, tid, start_ns as at_ns from launching_calls where $recompute
),
recomputed as materialized (
    select i.id
    from innermost('frames', 'starts') as i
    join innermost('engine_calls', 'starts') as j using (id)
    join frames as f on i.parent = f.id
    join engine_calls as e on j.parent = e.id
    where f.start_ns >= e.start_ns
),
points as materialized (
    select run, source, pid, call_tid as tid, call_start_ns as at_ns, null as device, gpu_ns, 1 as gpu_rows from launched
),
sums as (
    select
        c.run, c.rank, c.name, c.shapes, c.types, c.strides, c.argument_values,
        case when $recompute then c.id in (from recomputed) end as is_recompute,
        count(*) as calls,
        sum(c.direct_ns) as direct_ns,
        sum(w.gpu_ns) as subtree_ns
    from launching_calls as c
    left join summed_within('launching_calls', 'points') as w using (id)
    group by c.run, c.rank, c.name, c.shapes, c.types, c.strides, c.argument_values, is_recompute
),
shares as (
    select
        *,
        sum(direct_ns) over (partition by run, rank) as direct_sum_ns,
        row_number() over (partition by run, rank order by direct_ns desc, name, shapes, types, strides, argument_values, is_recompute) as place
    from sums
)
select
    run, rank, name as op,
    as_bigint(calls) as calls,
    as_bigint(direct_ns) as direct_ns,
    as_bigint(coalesce(subtree_ns, 0)) as subtree_ns,
    100 * direct_ns / nullif(direct_sum_ns, 0) as direct_percent,
    100 * sum(direct_ns) over placed / nullif(direct_sum_ns, 0) as cumulative_percent,
    shapes, types, strides, argument_values,
    as_bigint(sum(direct_ns) over placed) as cumulative_ns,
    as_bigint(direct_sum_ns) as direct_sum_ns,
    is_recompute
from shares
window placed as (partition by run, rank order by place)
order by run, rank, place
