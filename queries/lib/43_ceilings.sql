-- Ceilings of a roofline: GFLOP/s of a precision ('fp32', 'tensor_bf16' …), GB/s of a memory level ('dram', 'l2', 'l1').

-- specified_ceilings(cards): by data sheet. A row is one card of a relation of card_facts, and one ceiling.
create or replace macro specified_ceilings(cards) as table
select
    c.run, c.rank, c.device, r.precision as ceiling,
    c.sm_count * r.flop_per_cycle
    * case
        when not starts_with(r.precision, 'tensor') then c.clock_hz
        when r.precision = 'tensor_fp64' then c.clock_hz  -- 67 TFLOP/s of an H100: at the clock of fp32
        when r.precision = 'tensor_int8' then c.tensor_clock_hz
        else c.tensor_clock_hz * c.tensor_share
    end / 1e9 as per_s
from query_table(cards) as c
join chip_rates as r on c.cc = r.cc
where c.clock_hz is not null and c.sm_count is not null
union all
select run, rank, device, 'dram', bandwidth_gb_per_s
from query_table(cards)
where bandwidth_gb_per_s is not null;

-- usable_rates: the measurements of `ceilings` that limit something, with the rate that continuous work keeps up. That is
-- the sustained median; of a recording without one, the median of all repetitions, else the best.
create or replace view usable_rates as
select
    c.run, c.uuid, c.device_name, c.metric, c.unit, c.gpus, c.best,
    coalesce(c.sustained, c.median, c.best) as per_s,
    case when c.sustained is not null then 'sustained' when c.median is not null then 'median' else 'best' end as basis
from ceilings as c
where c.best > 0;
comment on view usable_rates is 'one measurement: the rate that continuous work keeps up, and the best repetition';

-- measured_ceilings(cards, from_run): as measured, what continuous work keeps up in the best of the measured shapes, of a
-- relation of card_facts. The measurements are those of `from_run`; else of the same run, else of the newest run on the same
-- card (uuid), else of the newest on a card of the same name. Of a run that measured several cards, those of the same one
-- come first. best_per_s is the best repetition of any shape, and basis whether per_s is 'sustained', 'median' or 'best'.
create or replace macro measured_ceilings(cards, from_run) as table
with _ages as (
    select s.run, coalesce(any_value(r.started_at), max(s.ingested_at)) as age
    from sources as s
    left join runs as r using (run)
    group by s.run
),
_measured as (
    select c.run, c.uuid, c.device_name, n.ceiling, c.metric, c.best, c.per_s, c.basis, n.place, a.age
    from usable_rates as c
    join ceiling_names as n on c.metric = n.metric
    join _ages as a on c.run = a.run
    where coalesce(c.gpus, 1) = 1
        and c.unit = case when n.ceiling in ('dram', 'l2', 'l1') then 'gb_per_s' else 'gflop_per_s' end
),
_near as (
    select
        c.run, c.rank, c.device, m.run as of_run, m.ceiling, m.metric, m.best, m.per_s, m.basis, m.place, m.age,
        case
            when m.run = from_run then 0
            when m.run = c.run and coalesce(m.uuid = c.uuid, true) and coalesce(m.device_name = c.name, true) then 1
            when m.uuid = c.uuid then 2
            when m.device_name = c.name then 3
        end as nearness,
        case when m.uuid = c.uuid then 1 when m.device_name = c.name then 2 else 3 end as likeness
    from query_table(cards) as c
    cross join _measured as m
    where from_run is null or m.run = from_run
),
_taken as (
    select run, rank, device, arg_min(of_run, (nearness, -epoch_us(age), of_run)) as of_run
    from _near
    where nearness is not null
    group by run, rank, device
),
_likest as (
    select n.*
    from _near as n
    join _taken as t
        on n.run = t.run and n.rank = t.rank and n.device is not distinct from t.device and n.of_run = t.of_run
    where n.nearness is not null
    qualify n.likeness = min(n.likeness) over (partition by n.run, n.rank, n.device, n.ceiling)
)
select
    run, rank, device, ceiling, of_run,
    arg_min(metric, (place, -per_s)) as metric,
    arg_min(per_s, (place, -per_s)) as per_s,
    arg_min(basis, (place, -per_s)) as basis,
    arg_min(best, (place, -best)) as best_per_s
from _likest
group by run, rank, device, ceiling, of_run;

-- measured_links(cards): the bandwidth of copies from and to pinned memory as measured, what continuous copies of the best
-- size keep up, of a relation of card_facts. The measurement is one of the same run, else the newest on the same card (uuid),
-- else the newest on a card of the same name. A row is one card and direction.
create or replace macro measured_links(cards) as table
with _links as (
    select
        c.run, c.uuid, c.device_name, c.per_s, coalesce(epoch_us(r.started_at), 0) as age,
        case c.metric when 'h2d_pinned' then 'HtoD' when 'd2h_pinned' then 'DtoH' end as direction
    from usable_rates as c
    left join runs as r using (run)
    where c.metric in ('h2d_pinned', 'd2h_pinned') and c.unit = 'gb_per_s'
),
_near as (
    select
        c.run, c.rank, c.device, m.direction, m.run as of_run, m.per_s, m.age,
        case
            when m.run = c.run and coalesce(m.uuid = c.uuid, true) and coalesce(m.device_name = c.name, true) then 1
            when m.uuid = c.uuid then 2
            when m.device_name = c.name then 3
        end as nearness,
        case when m.uuid = c.uuid then 1 when m.device_name = c.name then 2 else 3 end as likeness
    from query_table(cards) as c
    cross join _links as m
),
_taken as (
    select run, rank, device, direction, arg_min(of_run, (nearness, -age, of_run)) as of_run
    from _near
    where nearness is not null
    group by run, rank, device, direction
),
_likest as (
    select n.*
    from _near as n
    join _taken as t
        on n.run = t.run and n.rank = t.rank and n.device is not distinct from t.device and n.direction = t.direction
        and n.of_run = t.of_run
    where n.nearness is not null
    qualify n.likeness = min(n.likeness) over (partition by n.run, n.rank, n.device, n.direction)
)
select run, rank, device, direction, of_run, max(per_s) as gb_per_s
from _likest
group by run, rank, device, direction, of_run;

-- launch_peaks(relation): the peaks in a report itself, at the clock of the launch. A row is one launch of a
-- relation of ncu_launches, and one ceiling.
create or replace macro launch_peaks(relation) as table
with _metrics as not materialized (
    select run, source, pid, launch, metric, value
    from kernel_metrics
    where instance is null and (ends_with(metric, '.peak_sustained') or starts_with(metric, 'derived__sm__sass_thread_inst'))
),
_peaks as materialized (  -- the parts of a metric's name, once a name
    select
        metric,
        case part.letter
            when 'd' then 'fp64' when 'f' then 'fp32' when 'h' then 'fp16' else 'tensor_' || part.src
        end as ceiling,
        case when part.src <> '' or part.form = '_x2' then 1 when part.letter = 'h' then 4 else 2 end as flop
    from (
        select
            metric,
            regexp_extract(
                metric,
                '^(?:derived__)?sm(?:sp)?__(?:sass_thread_inst_executed_op_([dfh])fma_pred_on(_x2|\.sum\.peak_sustained)'
                || '|ops_path_tensor(?:_op_[a-z]+)?_src_((?:(?:fp|bf|tf|int)\d+_?)+?)(?:_dst_\w+?)?'
                || '(?:_sparsity_off)?\.sum\.peak_sustained)$',
                ['letter', 'form', 'src']
            ) as part
        from (select any_value(metric) as metric from _metrics group by metric)  -- `distinct` would see filters before it
    )
    where part.letter <> '' or part.src <> ''
)
select w.id, p.ceiling, max(m.value * w.clock_hz / 1e9 * p.flop) as per_s
from _metrics as m
join _peaks as p on m.metric = p.metric
join query_table(relation) as w
    on m.run = w.run and m.source = w.source and m.pid is not distinct from w.pid and m.launch = w.launch
group by w.id, p.ceiling
union all
select id, 'dram', dram_peak_gb_per_s from query_table(relation) where dram_peak_gb_per_s is not null
union all
select id, 'l2', l2_peak_gb_per_s from query_table(relation) where l2_peak_gb_per_s is not null
union all
select id, 'l1', l1_peak_gb_per_s from query_table(relation) where l1_peak_gb_per_s is not null;
