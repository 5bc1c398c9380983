-- Ceilings of a roofline: GFLOP/s of a precision ('fp32', 'tensor_bf16' …), GB/s of a memory level ('dram', 'l2', 'l1').

-- card_facts(relation): what is known of the cards of a relation with run, rank, device. A row is one of them.
create or replace macro card_facts(relation) as table
with _seen as (select distinct run, rank, device from query_table(relation)),
_told as (
    select
        s.run, s.rank, s.device,
        any_value(d.uuid) as uuid,
        any_value(d.name) as name,
        any_value(d.compute_capability) as cc,
        any_value(d.sm_count) as sm_count,
        any_value(d.spec_clock_hz) as clock_hz,
        any_value(d.spec_bandwidth_gb_per_s) as bandwidth_gb_per_s
    from _seen as s
    left join devices as d on s.run = d.run and s.rank = d.rank and s.device = d.device
    group by s.run, s.rank, s.device
),
_models as (
    select t.name, min(c.place) as place
    from (select distinct name from _told) as t
    join card_specifications as c on regexp_matches(t.name, c.pattern)
    group by t.name
)
select
    t.run, t.rank, t.device, t.uuid, t.name,
    coalesce(t.cc, c.cc) as cc,
    coalesce(t.sm_count, c.sm_count) as sm_count,
    coalesce(c.clock_hz, t.clock_hz) as clock_hz,
    coalesce(c.tensor_clock_hz, t.clock_hz) as tensor_clock_hz,
    coalesce(c.tensor_share, 1) as tensor_share,
    coalesce(t.bandwidth_gb_per_s, c.bandwidth_gb_per_s) as bandwidth_gb_per_s
from _told as t
left join _models as m on t.name = m.name
left join card_specifications as c on m.place = c.place;

-- specified_ceilings(relation): by data sheet. A row is one card of a relation with run, rank, device, and one ceiling.
create or replace macro specified_ceilings(relation) as table
with _cards as materialized (from card_facts(relation))
select
    c.run, c.rank, c.device, r.precision as ceiling,
    c.sm_count * r.flop_per_cycle
    * case
        when not starts_with(r.precision, 'tensor') then c.clock_hz
        when r.precision in ('tensor_int8', 'tensor_fp64') then c.tensor_clock_hz
        else c.tensor_clock_hz * c.tensor_share
    end / 1e9 as per_s
from _cards as c
join chip_rates as r on c.cc = r.cc
where c.clock_hz is not null and c.sm_count is not null
union all
select run, rank, device, 'dram', bandwidth_gb_per_s
from _cards
where bandwidth_gb_per_s is not null;

-- measured_ceilings(relation, from_run): as measured, the best repetition. The measurements are those of `from_run`; else
-- of the same run, else of the newest run on the same card (uuid), else of the newest on a card of the same name.
create or replace macro measured_ceilings(relation, from_run) as table
with _cards as materialized (from card_facts(relation)),
_ages as (
    select s.run, coalesce(any_value(r.started_at), max(s.ingested_at)) as age
    from sources as s
    left join runs as r using (run)
    group by s.run
),
_measured as (
    select c.run, c.uuid, c.device_name, n.ceiling, c.what, c.best, n.place, a.age
    from ceilings as c
    join ceiling_names as n on c.what = n.what
    join _ages as a on c.run = a.run
    where c.best > 0 and coalesce(c.gpus, 1) = 1
        and c.unit = case when n.ceiling in ('dram', 'l2', 'l1') then 'gb_per_s' else 'gflop_per_s' end
),
_near as (
    select
        c.run, c.rank, c.device, m.run as of_run, m.ceiling, m.what, m.best, m.place, m.age,
        case
            when m.run = from_run then 0
            when m.run = c.run and coalesce(m.uuid = c.uuid, true) and coalesce(m.device_name = c.name, true) then 1
            when m.uuid = c.uuid then 2
            when m.device_name = c.name then 3
        end as nearness
    from _cards as c
    cross join _measured as m
    where from_run is null or m.run = from_run
),
_taken as (
    select run, rank, device, arg_min(of_run, (nearness, -epoch_us(age), of_run)) as of_run
    from _near
    where nearness is not null
    group by run, rank, device
)
select
    n.run, n.rank, n.device, n.ceiling, n.of_run,
    arg_min(n.what, (n.place, -n.best)) as what,
    arg_min(n.best, (n.place, -n.best)) as per_s
from _near as n
join _taken as t
    on n.run = t.run and n.rank = t.rank and n.device is not distinct from t.device and n.of_run = t.of_run
where n.nearness is not null
group by n.run, n.rank, n.device, n.ceiling, n.of_run;

-- launch_peaks(relation): the peaks that a report itself tells, at the clock of the launch. A row is one launch of a
-- relation of ncu_launches, and one ceiling.
create or replace macro launch_peaks(relation) as table
with _read as (
    select
        w.id, m.metric, m.value * w.clock_hz / 1e9 as g_per_s,
        regexp_extract(
            m.metric,
            '^(?:derived__)?sm(?:sp)?__(?:sass_thread_inst_executed_op_([dfh])fma_pred_on(_x2|\.sum\.peak_sustained)'
            || '|ops_path_tensor(?:_op_[a-z]+)?_src_((?:(?:fp|bf|tf|int)\d+_?)+?)(?:_dst_\w+?)?'
            || '(?:_sparsity_off)?\.sum\.peak_sustained)$',
            ['letter', 'form', 'src']
        ) as part
    from kernel_metrics as m
    join query_table(relation) as w
        on m.run = w.run and m.source = w.source and m.pid is not distinct from w.pid and m.launch = w.launch
    where m.instance is null
        and (ends_with(m.metric, '.peak_sustained') or starts_with(m.metric, 'derived__sm__sass_thread_inst'))
)
select
    id,
    case part.letter
        when 'd' then 'fp64' when 'f' then 'fp32' when 'h' then 'fp16' else 'tensor_' || part.src
    end as ceiling,
    max(g_per_s * case when part.src <> '' or part.form = '_x2' then 1 when part.letter = 'h' then 4 else 2 end)
    as per_s
from _read
where part.letter <> '' or part.src <> ''
group by id, ceiling
union all
select id, 'dram', dram_peak_gb_per_s from query_table(relation) where dram_peak_gb_per_s is not null
union all
select id, 'l2', l2_peak_gb_per_s from query_table(relation) where l2_peak_gb_per_s is not null
union all
select id, 'l1', l1_peak_gb_per_s from query_table(relation) where l1_peak_gb_per_s is not null;
