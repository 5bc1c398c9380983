-- What the others wait for because of each rank whose waits are known: direct_ns while it was late since they were last together,
-- and in cost_ns also what it made ranks late that are waited for, by cause, and in compute, communication and copies by detail:
-- the class of a kernel, the kind of a collective, or memcpy or memset. compute_ns is the time of a class of kernels on the rank
-- from the earliest of these meetings to the last wait of the scope.
-- /// of one query
-- /// where min_gap_ns = 30000
-- /// where loader_name = "^enumerate\\(DataLoader\\)#"
with loads as materialized (
    select run, source, rank, start_ns, end_ns
    from recorded_annotations
    where matches(run, $run) and scope = 'cpu'
        and regexp_matches(name, $loader_name) and has_valid_interval(start_ns, end_ns)
),
devices as materialized (  -- those whose waits are known
    select (row_number() over (order by run, rank, source, device))::integer as lane, run, source, rank, device
    from (select distinct run, source, rank, device from collective_waits where last_rank is not null)
),
lanes as materialized (
    select
        d.lane, d.run, d.source, d.rank, d.device, w.first_ns, w.last_ns,
        (d.run, d.source, d.rank) in (select (run, source, rank) from loads) as has_loads
    from devices as d
    join (
        select run, source, rank, device, min(start_ns) as first_ns, max(end_ns) as last_ns
        from launched_work  -- what a rank does before it comes late is not chosen by a scope
        where matches(run, $run)
        group by run, source, rank, device
    ) as w
        on d.run = w.run and d.source = w.source and d.rank = w.rank and d.device is not distinct from w.device
),
codes as materialized (
    select detail, (row_number() over (order by detail))::integer as code
    from (
        select class as detail from kernel_rules
        union
        select collective from kernel_rules where collective is not null
        union
        select unnest(['unclassified', 'unknown', 'graph', 'memcpy', 'memset'])
    )
),
coded as (
    select d.lane, w.layer, c.code, w.start_ns, w.end_ns, w.launched_ns
    from launched_work as w
    join hint_small('codes') as c on w.detail = c.detail
    join hint_small('devices') as d
        on w.run = d.run and w.source = d.source and w.rank = d.rank and w.device is not distinct from d.device
),
pairs as materialized (
    from wait_pairs('collective_waits')
),
ways as materialized (
    from approaches('pairs', 'collective_waits', 'lanes')
),
cuts as materialized (
    select lane, at_ns, row_number() over (order by lane, at_ns desc) as cell
    from (
        select lane, begin_ns as at_ns from ways
        union
        select lane, entry_ns from ways
        union
        select lane, last_entry_ns from ways where sign = -1
    )
),
all_cells as materialized (  -- one number for layer and code, or for the cause of an idle stretch: it groups fast
    select
        s.lane, s.cell, s.start_ns, s.end_ns, l.has_loads,
        case
            when s.layer < 3 then 4096 * s.layer + s.code
            when s.end_ns <= l.first_ns then 3 * 4096
            when s.launched_ns is null then 3 * 4096 + 1
            when s.launched_ns > s.start_ns then 3 * 4096 + 2
            when s.end_ns - s.start_ns > $min_gap_ns then 3 * 4096 + 3
            else 3 * 4096 + 4
        end as state
    from states('coded', 'cuts') as s
    join hint_small('lanes') as l on s.lane = l.lane
),
loads_of_lanes as (
    select l.lane, w.start_ns, w.end_ns
    from loads as w
    join hint_small('lanes') as l on w.run = l.run and w.source = l.source and w.rank = l.rank
),
waits_for_data as materialized (
    from merged('loads_of_lanes')
),
stretches_with_data as materialized (  -- few: the last wait that begins before a stretch ends reaches into it
    select s.lane, s.cell, s.state, s.start_ns, s.end_ns
    from (from all_cells where has_loads and state = 3 * 4096 + 2) as s
    asof join waits_for_data as w on s.lane = w.lane and s.end_ns > w.start_ns
    where w.end_ns > s.start_ns
),
cells_of_data as materialized (
    select s.lane, s.cell, s.state, sum(least(s.end_ns, w.end_ns) - greatest(s.start_ns, w.start_ns)) as dur_ns
    from stretches_with_data as s
    join waits_for_data as w on s.lane = w.lane and s.start_ns < w.end_ns and s.end_ns > w.start_ns
    group by s.lane, s.cell, s.state
),
cells as not materialized (  -- several rows a cell and state, and one below 0 for what is charged to data instead
    select lane, cell, state, state // 4096 as layer, end_ns - start_ns as dur_ns, start_ns, end_ns from all_cells
    union all
    select
        lane, cell,
        unnest([state, 3 * 4096 + 5]),
        3,
        unnest([-dur_ns, dur_ns]),
        null, null
    from cells_of_data
),
inherited as materialized (
    from inherited_waits('ways', 'cells')
),
inside as materialized (
    from inheritances('ways', 'inherited')
),
scoped_pairs as not materialized (  -- the other waits only carry lateness on
    from pairs where in_scope
),
weights as materialized (
    select
        id,
        sum(weight) as weight,
        coalesce(sum(weight) filter (hop = 0), 0) as direct_weight,
        coalesce(sum(weight) filter (hop < 100), 0) as carried_weight
    from delay_weights('scoped_pairs', 'inside', 100)
    group by id
),
spans as materialized (
    select
        a.run, a.last_rank, a.lane, a.begin_ns, a.entry_ns,
        sum(a.sign * w.weight) as weight,
        sum(a.sign * w.direct_weight) as direct_weight
    from ways as a
    join weights as w on a.id = w.id
    group by a.run, a.last_rank, a.lane, a.begin_ns, a.entry_ns
),
-- one cut at a time, for cuts joined with each other by lane alone would be millions of rows
entries as materialized (
    select s.run, s.last_rank, s.lane, s.begin_ns, s.weight, s.direct_weight, c.cell as entry_cell
    from spans as s
    join cuts as c on s.lane = c.lane and s.entry_ns = c.at_ns
),
weighted as (
    select s.run, s.last_rank, unnest(range(s.entry_cell, c.cell)) as cell, s.weight, s.direct_weight
    from entries as s
    join cuts as c on s.lane = c.lane and s.begin_ns = c.at_ns
),
wait_ends as materialized (
    select i.lane, i.entry_ns, c.cell as end_cell
    from inherited as i
    join cuts as c on i.lane = c.lane and i.last_entry_ns = c.at_ns
),
waiting as materialized (
    select unnest(range(w.end_cell, c.cell)) as cell
    from wait_ends as w
    join cuts as c on w.lane = c.lane and w.entry_ns = c.at_ns
),
weights_of_cells as materialized (
    select run, last_rank, cell, cell in (from hint_small('waiting')) as waits, sum(weight) as weight, sum(direct_weight) as direct_weight
    from weighted
    group by run, last_rank, cell
),
numbered_weights as materialized (  -- some hundreds: a time is added up for each before it is multiplied
    select *, (row_number() over ())::integer as number
    from (select distinct run, last_rank, waits, weight, direct_weight from weights_of_cells)
),
weighed_times as (
    select w.number, c.state, sum(c.dur_ns) as dur_ns
    from (
        select cell, number
        from weights_of_cells
        join hint_small('numbered_weights') using (run, last_rank, waits, weight, direct_weight)
    ) as w
    join cells as c on w.cell = c.cell
    group by w.number, c.state
),
charges as (
    select
        w.run, w.last_rank as rank,
        case when w.waits then 4 * 4096 else t.state end as state,
        sum(w.weight * t.dur_ns) as cost_ns,
        sum(w.direct_weight * t.dur_ns) as direct_ns
    from weighed_times as t
    join numbered_weights as w on t.number = w.number
    group by all
    union all
    select
        i.run, i.last_rank, 4 * 4096,
        -sum(i.sign * w.carried_weight * i.wait_ns), -sum(i.sign * w.direct_weight * i.wait_ns)
    from inside as i
    join weights as w on i.id = w.id
    group by i.run, i.last_rank
),
compared_spans as (  -- from the earliest of these meetings to the last wait of the scope
    select
        lane, min(begin_ns) as begin_ns,
        max(case when sign = -1 then greatest(entry_ns, last_entry_ns) else entry_ns end) as end_ns
    from (from ways semi join scoped_pairs using (id))
    group by lane
),
compared_cells as (
    select s.lane, e.cell as first_cell, b.cell as end_cell
    from compared_spans as s
    join cuts as b on s.lane = b.lane and s.begin_ns = b.at_ns
    join cuts as e on s.lane = e.lane and s.end_ns = e.at_ns
),
class_times as (
    select l.run, l.rank, c.state, sum(c.dur_ns) as dur_ns
    from cells as c
    join hint_small('lanes') as l on c.lane = l.lane
    join hint_small('compared_cells') as r on l.lane = r.lane
    where c.layer = 0 and c.cell >= r.first_cell and c.cell < r.end_cell
    group by l.run, l.rank, c.state
),
named_costs as (
    select
        c.run, c.rank,
        case
            when c.state < 4096 then 'compute'
            when c.state < 2 * 4096 then 'communication'
            when c.state < 3 * 4096 then 'copies'
            when c.state < 4 * 4096 then ['start', 'unknown', 'host', 'dependency', 'overhead', 'data'][c.state - 3 * 4096 + 1]
            else 'wait'
        end as cause,
        k.detail,
        sum(c.cost_ns) as cost_ns,
        sum(c.direct_ns) as direct_ns
    from charges as c
    left join codes as k on c.state < 3 * 4096 and c.state % 4096 = k.code
    group by c.run, c.rank, cause, k.detail
    having sum(c.cost_ns) <> 0 or sum(c.direct_ns) <> 0
)
select
    coalesce(c.run, t.run) as run,
    coalesce(c.rank, t.rank) as rank,
    coalesce(c.cause, 'compute') as cause,
    coalesce(c.detail, t.detail) as detail,
    c.cost_ns::decimal(38, 0) as cost_ns,
    c.direct_ns::decimal(38, 0) as direct_ns,
    t.dur_ns::decimal(38, 0) as compute_ns
from named_costs as c
full join (
    select t.run, t.rank, k.detail, t.dur_ns
    from class_times as t
    join codes as k on t.state = k.code
) as t
    on c.run = t.run and c.rank = t.rank and c.cause = 'compute' and c.detail = t.detail
