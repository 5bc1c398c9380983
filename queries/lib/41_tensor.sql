-- tensor_flop(relation, counts): what the tensor cores did, by the type that they multiplied; `counts` is
-- counter_values(relation). A row is one launch and precision ('tensor_bf16' …). A counter of a type is the sum of those of
-- its result types, and each of those the sum of dense and sparse: the widest that was counted counts, and never a part
-- beside its whole. These counters count operations, two a multiply-add, so nothing is multiplied. A type that the chip
-- has, and that was not counted, has a row without FLOPs.
create or replace macro tensor_flop(relation, counts) as table
with _paths as (select * from query_table(counts) where family = 'tensor'),
_results as (
    select
        id, src, op, dst,
        coalesce(
            max(executed) filter (sparsity = ''),
            case
                when bool_or(sparsity = 'on') and bool_or(sparsity = 'off') and bool_and(executed is not null or absent)
                then coalesce(sum(executed) filter (sparsity <> ''), 0)
            end,
            case when bool_and(absent) then 0 end
        ) as executed,
        max(origin) as origin
    from _paths
    group by id, src, op, dst
),
_types as (
    select
        id, src,
        max(executed) filter (op = '' and dst = '') as whole,
        sum(executed) filter (op = '' and dst <> '') as by_result,
        bool_and(executed is not null) filter (op = '' and dst <> '') as results_known,
        list(dst) filter (op = '' and dst <> '' and executed is not null) as results,
        sum(executed) filter (op <> '') as by_operation,
        bool_and(executed is not null) filter (op <> '') as operations_known,
        max(origin) as origin
    from _results
    group by id, src
),
_reported as (
    select
        id, src, origin,
        case
            when whole is not null then whole
            when results_known and (src not in ('fp16', 'fp8') or list_has_all(results, ['fp16', 'fp32']))
            then by_result
            when results is null and operations_known then by_operation
        end as flop
    from _types
),
_pipes as (
    select
        w.id,
        max(m.value) as most,
        max(m.value) filter (ends_with(m.metric, 'inst_executed_pipe_tensor.sum')) as executed
    from kernel_metrics as m
    join query_table(relation) as w
        on m.run = w.run and m.source = w.source and m.pid is not distinct from w.pid and m.launch = w.launch
    where m.instance is null and contains(m.metric, 'pipe_tensor')
        and regexp_matches(m.metric, '^sm(?:sp)?__(inst_executed_pipe_tensor|pipe_tensor_cycles_active)\.(sum|avg)')
        and not contains(m.metric, 'peak_sustained.') and not ends_with(m.metric, '.peak_sustained')
    group by w.id
),
_launches as (  -- an idle pipe, or a chip without one, settles every type
    select
        l.id, l.cc,
        coalesce(p.most = 0, false) or coalesce(l.cc < 7, false) as is_idle,
        -- 512 is what one instruction of a V100 counts; later chips have instructions of several sizes.
        case when l.cc between 7 and 7.2 then p.executed * 512 end as estimate,
        coalesce(t.reported, 0) > 0 as is_reported
    from query_table(relation) as l
    left join _pipes as p on l.id = p.id
    left join (select id, count(*) as reported from _reported group by id) as t on l.id = t.id
),
_lacking as (
    select l.id, n.kind
    from _launches as l
    join tensor_needs as n
        on l.cc between n.from_cc and n.until_cc or l.cc is null and n.kind in ('fp16', 'bf16', 'tf32')
    left join _reported as t on l.id = t.id and list_contains(string_split(t.src, '_'), n.kind) and t.flop is not null
    where t.id is null and not l.is_idle and (l.is_reported or l.estimate is null)
)
select id, 'tensor_' || src as precision, flop, origin, []::varchar[] as missing, true as is_reported
from _reported
where flop is not null
union all
select id, 'tensor_fp16', estimate, 'estimated', [], true
from _launches
where not is_reported and not is_idle and estimate is not null
union all
select
    l.id, 'tensor_' || l.kind, null, 'counted', ['sm__ops_path_tensor_src_' || l.kind || '.sum'],
    t.id is not null
from _lacking as l
left join _reported as t on l.id = t.id and l.kind = t.src;

-- launch_flop(relation, half): FLOPs of each launch of a relation of ncu_launches. A row is one launch and precision:
-- fp64, fp32, fp16, tensor_bf16 …, and 'all', their sum over floating-point types. `missing` names the metrics without
-- which `flop` is NULL; `is_shown` is false for a precision of which nothing was counted, or which did nothing.
create or replace macro launch_flop(relation, half) as table
with _counts as materialized (from counter_values(relation)),
_parts as materialized (
    select id, precision, flop, origin, missing, is_reported from thread_flop(relation, '_counts', half)
    union all
    select id, precision, flop, origin, missing, is_reported from tensor_flop(relation, '_counts')
)
select
    id, precision, flop, origin, missing,
    is_reported and (flop is null or flop > 0) as is_shown
from _parts
union all
select
    id, 'all',
    case when count(*) filter (flop is null) = 0 then sum(flop) end,
    string_agg(distinct origin, ' + ' order by origin) filter (flop > 0),
    list_sort(list_distinct(flatten(list(missing)))),
    true
from _parts
where not starts_with(precision, 'tensor_int')
group by id;
