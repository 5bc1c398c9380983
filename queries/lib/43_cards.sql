-- Cards: which run identifies a GPU, for reports of single kernels often have only its compute capability.

-- paired_runs(ncu): which run's counts a timeline takes: those of `ncu`; else its own; else of the newest run of the same
-- program; else of the only run that has any. A row is one run with kernels; `ncu_run` is NULL where none is found.
create or replace macro paired_runs(ncu) as table
with _profiled as (
    select m.run, any_value(r.program) as program, any_value(r.started_at) as started_at
    from (select distinct run from kernel_metrics) as m
    left join runs as r using (run)
    group by m.run
),
_timelines as (
    select k.run, any_value(r.program) as program
    from (select distinct run from kernels) as k
    left join runs as r using (run)
    group by k.run
    having count(*) > 0  -- always so, here and below; but DuckDB then takes the runs for fewer than their kernels
)
select
    t.run,
    coalesce(
        max(p.run) filter (p.run = ncu),
        case
            when ncu is null then coalesce(
                max(p.run) filter (p.run = t.run),
                arg_max(p.run, (coalesce(epoch_us(p.started_at), 0), p.run)) filter (p.program = t.program),
                case when count(p.run) = 1 then max(p.run) end
            )
        end
    ) as ncu_run
from _timelines as t
left join _profiled as p on true
group by t.run
having count(*) > 0;

-- timed_pairs(run, ncu): paired_runs of the runs with kernels that `run` names: itself, or where it has no kernels those that
-- take its counts, or are of its program. All pairs where it is NULL.
create or replace macro timed_pairs(wanted, ncu) as table
with _pairs as materialized (from paired_runs(ncu))
select run, ncu_run
from _pairs
where matches(run, wanted) or wanted not in (select run from _pairs) and (
    ncu_run = wanted or run in (select s.run from runs as s join runs as r on s.program = r.program and r.run = wanted)
);

-- counted_pairs(run): the runs with counts that `run` names: itself; the one whose counts it takes where it has none, and then
-- `timed_run` is the one with the times, else NULL; or the newest one of its program where it has no kernels either. All
-- runs with counts where it is NULL.
create or replace macro counted_pairs(wanted) as table
with _own as (select distinct run as ncu_run, null::varchar as timed_run from kernel_metrics where matches(run, wanted)),
_taken as (select ncu_run, run as timed_run from paired_runs(null) where run = wanted and ncu_run <> wanted)
from _own
union all
from _taken
union all
select arg_max(m.run, (coalesce(epoch_us(m.started_at), 0), m.run)), null
from runs as m
join runs as r on m.program = r.program and r.run = wanted
where m.run in (select run from kernel_metrics) and not exists (from _own) and not exists (from _taken)
having count(*) > 0;

-- is_card(name, pattern): whether a name is that of a card in card_specifications.
create or replace macro is_card(name, pattern) as
    regexp_full_match(name, '(?:NVIDIA |Tesla |GeForce )*(?:' || pattern || ')');

-- placed_cards: what runs themselves state of their cards. A row is one card, by its ordinal. Old exports of Nsight Systems list
-- the cards of a machine without ordinals: where all of a rank are one model, one row without an ordinal has what holds for
-- each of them.
create or replace view placed_cards as
select run, rank, device, uuid, name, compute_capability, sm_count, spec_clock_hz, spec_bandwidth_gb_per_s
from devices
where device is not null
union all by name
select
    run, rank, null as device,
    case when min(uuid) = max(uuid) then min(uuid) end as uuid,
    min(name) as name,
    case when min(compute_capability) = max(compute_capability) then min(compute_capability) end as compute_capability,
    case when min(sm_count) = max(sm_count) then min(sm_count) end as sm_count,
    case when min(spec_clock_hz) = max(spec_clock_hz) then min(spec_clock_hz) end as spec_clock_hz,
    case
        when min(spec_bandwidth_gb_per_s) = max(spec_bandwidth_gb_per_s) then min(spec_bandwidth_gb_per_s)
    end as spec_bandwidth_gb_per_s
from devices
group by run, rank
having count(device) = 0 and count(name) = count(*) and min(name) = max(name);

-- specified_cards(relation): the data sheets of the cards of a relation with run, rank, device, by the names that the run itself
-- has. A row is one of them; a card without a name or a data sheet has none.
create or replace macro specified_cards(relation) as table
select s.run, s.rank, s.device, c.* exclude (place, pattern)
from (select distinct run, rank, device from query_table(relation)) as s
join placed_cards as d on s.run = d.run and s.rank = d.rank and coalesce(d.device, s.device) = s.device
join card_specifications as c on is_card(d.name, c.pattern)
qualify row_number() over (partition by s.run, s.rank, s.device order by c.place) = 1;

-- card_facts(relation, timeline): what is known of the cards of a relation with run, rank, device. A row is one of them.
-- Where a run does not name its card, another does: `timeline`; else those that take its counts (paired_runs) and those of
-- the same program, if all of them name one model, of the same compute capability. `card_run` is then one of these.
create or replace macro card_facts(relation, timeline) as table
with _seen as (select distinct run, rank, device from query_table(relation)),
_own as (
    select
        s.run, s.rank, s.device,
        any_value(d.uuid) as uuid,
        any_value(d.name) as name,
        any_value(d.compute_capability) as cc,
        any_value(d.sm_count) as sm_count,
        any_value(d.spec_clock_hz) as clock_hz,
        any_value(d.spec_bandwidth_gb_per_s) as bandwidth_gb_per_s
    from _seen as s
    left join placed_cards as d on s.run = d.run and s.rank = d.rank and coalesce(d.device, s.device) = s.device
    group by s.run, s.rank, s.device
),
_others as (  -- runs that may name the card of a run
    select distinct o.run, n.run as card_run
    from (select distinct run from _own where name is null) as o
    join (select distinct run from devices where name is not null) as n on o.run <> n.run
    left join runs as r on o.run = r.run
    left join runs as s on n.run = s.run
    left join paired_runs(null) as p on n.run = p.run and o.run = p.ncu_run
    where case when timeline is null then r.program = s.program or p.run is not null else n.run = timeline end
),
_offered as (  -- of the same place, where there is one
    select
        c.run, c.rank, c.device, o.card_run,
        d.uuid, d.name, d.compute_capability, d.sm_count, d.spec_clock_hz, d.spec_bandwidth_gb_per_s
    from _own as c
    join _others as o on c.run = o.run
    join devices as d on o.card_run = d.run and d.name is not null and coalesce(c.cc = d.compute_capability, true)
    where c.name is null
    qualify c.rank = d.rank and c.device = d.device
        or not bool_or(c.rank = d.rank and c.device = d.device) over (partition by c.run, c.rank, c.device)
),
_borrowed as (
    select
        run, rank, device,
        max(card_run) as card_run,
        case when count(distinct uuid) = 1 then any_value(uuid) end as uuid,
        any_value(name) as name,
        any_value(compute_capability) as cc,
        any_value(sm_count) as sm_count,
        any_value(spec_clock_hz) as clock_hz,
        any_value(spec_bandwidth_gb_per_s) as bandwidth_gb_per_s
    from _offered
    group by run, rank, device
    having count(distinct name) = 1
),
_told as (
    select
        c.run, c.rank, c.device, b.card_run,
        coalesce(c.uuid, b.uuid) as uuid,
        coalesce(c.name, b.name) as name,
        coalesce(c.cc, b.cc) as cc,
        coalesce(c.sm_count, b.sm_count) as sm_count,
        coalesce(c.clock_hz, b.clock_hz) as clock_hz,
        coalesce(c.bandwidth_gb_per_s, b.bandwidth_gb_per_s) as bandwidth_gb_per_s
    from _own as c
    left join _borrowed as b on c.run = b.run and c.rank = b.rank and c.device is not distinct from b.device
),
_models as (
    select t.name, min(c.place) as place
    from (select distinct name from _told) as t
    join card_specifications as c on is_card(t.name, c.pattern)
    group by t.name
)
select
    t.run, t.rank, t.device, t.uuid, t.name,
    coalesce(t.cc, c.cc) as cc,
    coalesce(t.sm_count, c.sm_count) as sm_count,
    coalesce(c.clock_hz, t.clock_hz) as clock_hz,
    coalesce(c.tensor_clock_hz, t.clock_hz) as tensor_clock_hz,
    coalesce(c.tensor_share, 1) as tensor_share,
    coalesce(t.bandwidth_gb_per_s, c.bandwidth_gb_per_s) as bandwidth_gb_per_s,
    t.card_run
from _told as t
left join _models as m on t.name = m.name
left join card_specifications as c on m.place = c.place;
