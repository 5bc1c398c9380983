-- FLOPs and bytes of each launch, out of what a profiler of single kernels counted (`kernel_metrics`).
--
-- Counts are never guessed: where an instruction that the chip has was not counted, the sum is NULL and the missing metric
-- is named. A metric with the value `n/a` is one that the chip has not, and counts as 0. Rates (`.per_second`,
-- `.per_cycle_elapsed`) are counts only times the time that they were taken over; peaks and percentages never are.

-- flop_weights: what one executed thread instruction counts, and on which chips it exists (`from_cc` to `until_cc`): there
-- it is needed for a sum, elsewhere it counts where it was counted. Half precision works on two numbers at once, so it
-- counts twice; `scalar_flop` is the lower bound, as if it never did.
create or replace view flop_weights as
from (values
    ('fp64', 'dadd', 1, 1, 0, 99), ('fp64', 'dmul', 1, 1, 0, 99), ('fp64', 'dfma', 2, 2, 0, 99),
    ('fp32', 'fadd', 1, 1, 0, 99), ('fp32', 'fmul', 1, 1, 0, 99), ('fp32', 'ffma', 2, 2, 0, 99),
    ('fp32', 'fadd2', 2, 2, 10, 11.9), ('fp32', 'fmul2', 2, 2, 10, 11.9), ('fp32', 'ffma2', 4, 4, 10, 11.9),
    ('fp16', 'hadd', 2, 1, 5.3, 99), ('fp16', 'hmul', 2, 1, 5.3, 99), ('fp16', 'hfma', 4, 2, 5.3, 99)
) as weights(precision, op, packed_flop, scalar_flop, from_cc, until_cc);
comment on view flop_weights is 'one kind of thread instruction: the FLOPs that one execution counts';

-- tensor_needs: types whose tensor operations must be known before a sum is, by chip. Integer operations are no FLOPs.
create or replace view tensor_needs as
from (values
    ('fp16', 7, 99), ('bf16', 8, 99), ('tf32', 8, 99), ('fp64', 8, 8), ('fp64', 9, 9), ('fp64', 10, 10.3),
    ('fp8', 8.9, 99), ('fp4', 10, 99)
) as needs(kind, from_cc, until_cc);
comment on view tensor_needs is 'one type that the tensor cores of some chips multiply';

-- reported_value(metric, value, section, wanted): one metric of a launch, an aggregate. A report may have a metric in
-- several sections, taken in several passes; the first by name counts, always the same one.
create or replace macro reported_value(metric, value, section, wanted) as
    arg_min(value, coalesce(section, '')) filter (metric = wanted);

-- complete_sum(value): a sum, NULL where a part of it is; an aggregate.
create or replace macro complete_sum(value) as case when count(value) = count(*) then sum(value) end;

-- ncu_launches: one profiled launch, with time, bytes and the chip's rates. `id` identifies a launch.
create or replace view ncu_launches as
with _chips as (
    select run, rank, device, any_value(try_cast(compute_capability as double)) as cc
    from devices
    group by run, rank, device
),
_read as (
    select
        run, source, pid, launch,
        any_value(rank) as rank,
        any_value(device) as device,
        any_value(stream) as stream,
        any_value(kernel) as name,
        any_value({'x': grid_x, 'y': grid_y, 'z': grid_z}) as grid,
        any_value({'x': block_x, 'y': block_y, 'z': block_z}) as block,
        any_value(clock_control) as clock_control,
        reported_value(metric, value, section, 'gpu__time_duration.sum') as time_sum,
        reported_value(metric, value, section, 'gpu__time_duration.avg') as time_avg,
        reported_value(metric, value, section, 'smsp__cycles_elapsed.avg') as smsp_cycles,
        reported_value(metric, value, section, 'sm__cycles_elapsed.avg') as sm_cycles,
        reported_value(metric, value, section, 'smsp__cycles_elapsed.avg.per_second') as smsp_hz,
        reported_value(metric, value, section, 'sm__cycles_elapsed.avg.per_second') as sm_hz,
        reported_value(metric, value, section, 'gpc__cycles_elapsed.avg.per_second') as gpc_hz,
        reported_value(metric, value, section, 'dram__cycles_elapsed.avg.per_second') as dram_hz,
        reported_value(metric, value, section, 'lts__cycles_elapsed.avg.per_second') as l2_hz,
        reported_value(metric, value, section, 'l1tex__cycles_elapsed.avg.per_second') as l1_hz,
        reported_value(metric, value, section, 'dram__bytes.sum') as dram,
        reported_value(metric, value, section, 'dram__bytes_read.sum')
        + reported_value(metric, value, section, 'dram__bytes_write.sum') as dram_rw,
        reported_value(metric, value, section, 'dram__bytes_op_read.sum')
        + reported_value(metric, value, section, 'dram__bytes_op_write.sum') as dram_op,
        reported_value(metric, value, section, 'dram__bytes.sum.per_second') as dram_rate,
        reported_value(metric, value, section, 'lts__t_bytes.sum') as l2,
        reported_value(metric, value, section, 'lts__t_sectors.sum') as l2_sectors,
        reported_value(metric, value, section, 'lts__t_bytes.sum.per_second') as l2_rate,
        reported_value(metric, value, section, 'l1tex__t_bytes.sum') as l1,
        reported_value(metric, value, section, 'l1tex__t_bytes.sum.per_second') as l1_rate,
        reported_value(metric, value, section, 'dram__bytes.sum.peak_sustained') as dram_peak,
        reported_value(metric, value, section, 'lts__t_bytes.sum.peak_sustained') as l2_peak,
        reported_value(metric, value, section, 'l1tex__t_bytes.sum.peak_sustained') as l1_peak,
        reported_value(metric, value, section, 'launch__shared_mem_per_block_static')
        + reported_value(metric, value, section, 'launch__shared_mem_per_block_dynamic') as shared_bytes
    from kernel_metrics
    where instance is null
    group by run, source, pid, launch
),
_timed as (
    select
        *,
        coalesce(smsp_hz, sm_hz, gpc_hz) as clock_hz,
        coalesce(
            time_sum, time_avg, smsp_cycles / nullif(smsp_hz, 0) * 1e9, sm_cycles / nullif(sm_hz, 0) * 1e9
        ) as exact_ns
    from _read
)
select
    t.run, t.source, t.rank, t.pid, t.launch,
    {'run': t.run, 'source': t.source, 'pid': t.pid, 'launch': t.launch} as id,
    t.device, t.stream, t.name, t.grid, t.block, t.shared_bytes, t.clock_control,
    as_bigint(round(t.exact_ns)) as dur_ns,
    case when coalesce(t.time_sum, t.time_avg) is not null then 'ncu' when t.exact_ns is not null then 'ncu cycles' end
    as time_source,
    t.exact_ns,
    t.clock_hz,
    as_bigint(round(coalesce(t.dram, t.dram_rw, t.dram_op, t.dram_rate * t.exact_ns / 1e9))) as dram_bytes,
    as_bigint(round(coalesce(t.l2, t.l2_sectors * 32, t.l2_rate * t.exact_ns / 1e9))) as l2_bytes,
    as_bigint(round(coalesce(t.l1, t.l1_rate * t.exact_ns / 1e9))) as l1_bytes,
    t.dram_peak * t.dram_hz / 1e9 as dram_peak_gb_per_s,
    t.l2_peak * t.l2_hz / 1e9 as l2_peak_gb_per_s,
    t.l1_peak * coalesce(t.l1_hz, t.sm_hz, t.smsp_hz) / 1e9 as l1_peak_gb_per_s,
    c.cc
from _timed as t
left join _chips as c on t.run = c.run and t.rank = c.rank and t.device = c.device;
comment on view ncu_launches is 'one launch that ncu or nvprof profiled: its time, its bytes and the peaks of its chip';

-- counter_values(relation): the counts among the metrics of a relation of ncu_launches. A row is one launch and counter:
-- `family` is 'thread' (instructions by `op`) or 'tensor' (operations by `op`, `src`, `dst`, `sparsity`). `executed` is
-- NULL where the report names the counter without a number, and then `absent` is whether the chip lacks it.
create or replace macro counter_values(relation) as table
with _metrics as not materialized (
    select run, source, pid, launch, metric, value, text
    from kernel_metrics
    where instance is null
        and (starts_with(metric, 'sm__ops_path_tensor_') or starts_with(metric, 'sm__sass_thread_inst_')
            or starts_with(metric, 'smsp__sass_thread_inst_') or starts_with(metric, 'derived__smsp__sass_thread_inst_'))
),
_counters as materialized (  -- the parts of a metric's name, once a name: a million metrics have some dozen
    select *, dense_rank() over (order by family, op, src, dst, sparsity) as counter
    from (
        select
            metric,
            case when part.thread <> '' then 'thread' else 'tensor' end as family,
            case when part.thread <> '' then part.thread_op else part.tensor_op end as op,
            part.src as src,
            part.dst as dst,
            part.sparsity as sparsity,
            part.rate as rate
        from (
            select
                metric,
                regexp_extract(
                    metric,
                    '^(?:derived__)?sm(?:sp)?__(?:sass_(thread)_inst_executed_op_(\w+?)_pred_on'
                    || '|ops_path_(tensor)(?:_op_([a-z]+))?_src_((?:(?:fp|bf|tf|int)\d+_?)+?)(?:_dst_(\w+?))?'
                    || '(?:_sparsity_(on|off))?)(?:\.sum)?(?:[._](per_cycle_elapsed|per_second|x2))?$',
                    ['thread', 'thread_op', 'tensor', 'tensor_op', 'src', 'dst', 'sparsity', 'rate']
                ) as part
            from (select any_value(metric) as metric from _metrics group by metric)  -- `distinct` would see filters before it
        )
        where part.thread <> '' or part.tensor <> ''
    )
),
_sums as (
    select
        w.id, c.counter,
        coalesce(
            max(m.value) filter (c.rate = ''),
            max(m.value * w.clock_hz * w.exact_ns / 1e9) filter (c.rate = 'per_cycle_elapsed'),
            max(m.value / 2 * w.clock_hz * w.exact_ns / 1e9) filter (c.rate = 'x2'),  -- doubled, in a cycle
            max(m.value * w.exact_ns / 1e9) filter (c.rate = 'per_second')
        ) as executed,
        count(m.value) = 0 and bool_or(m.text ilike 'n/a%') as absent,
        case
            when count(m.value) filter (c.rate = '') = 0 and count(m.value) > 0 then 'rate' else 'counted'
        end as origin
    from _metrics as m
    join _counters as c on m.metric = c.metric
    join query_table(relation) as w
        on m.run = w.run and m.source = w.source and m.pid is not distinct from w.pid and m.launch = w.launch
    group by w.id, c.counter
)
select s.id, c.family, c.op, c.src, c.dst, c.sparsity, s.executed, s.absent, s.origin
from _sums as s
join (select distinct counter, family, op, src, dst, sparsity from _counters) as c using (counter);

-- thread_flop(relation, counts, half): FLOPs outside the tensor cores; `counts` is count_phrase(relation). A row is one
-- launch and precision; `flop` is NULL unless each instruction that the chip has was counted, or the profiler itself gave
-- the sum (nvprof's flop_count_sp).
create or replace macro thread_flop(relation, counts, half) as table
with _sums as (
    select
        w.id, m.value,
        case m.metric when 'flop_count_dp' then 'fp64' when 'flop_count_sp' then 'fp32' else 'fp16' end as precision
    from kernel_metrics as m
    join query_table(relation) as w
        on m.run = w.run and m.source = w.source and m.pid is not distinct from w.pid and m.launch = w.launch
    where m.metric in ('flop_count_dp', 'flop_count_sp', 'flop_count_hp') and m.instance is null and m.value is not null
),
_operations as (
    select
        l.id, w.precision, w.op, f.executed, f.origin,
        case when half = 'scalar' then w.scalar_flop else w.packed_flop end as weight,
        (l.cc is null and w.from_cc < 10 or l.cc between w.from_cc and w.until_cc)
        and not coalesce(f.absent, false) as needed
    from query_table(relation) as l
    cross join flop_weights as w
    left join query_table(counts) as f on l.id = f.id and f.family = 'thread' and w.op = f.op
),
_precisions as (
    select
        id, precision,
        case when bool_and(executed is not null or not needed) then coalesce(sum(executed * weight), 0) end as flop,
        coalesce(max(origin) filter (executed is not null), 'counted') as origin,
        count(executed) > 0 as is_reported,
        coalesce(
            list('smsp__sass_thread_inst_executed_op_' || op || '_pred_on.sum' order by op)
            filter (executed is null and needed),
            []
        ) as missing
    from _operations
    group by id, precision
)
select
    p.id, p.precision,
    coalesce(p.flop, s.value) as flop,
    case when p.flop is null and s.value is not null then 'counted' else p.origin end as origin,
    p.is_reported or s.value is not null as is_reported,
    case when p.flop is null and s.value is null then p.missing else [] end as missing
from _precisions as p
left join _sums as s on p.id = s.id and p.precision = s.precision;
