-- Why ranks come late to collectives, and how much waiting of other ranks each cause costs.
-- A row is one run, late rank, cause and detail. Each wait of collective_wait is explained by a comparison: what the last
-- rank did since it was last together with the rank that waits, less what that rank did, so that the differences add up to the
-- wait. They were together when the last rank entered the latest collective that synchronized both. Each nanosecond counts
-- once: compute, then communication, then copies, else idle with its cause as in idle_causes (of a gap that a meeting cuts
-- each part by itself; of one with cause host, the time in which the rank waits for its data loader has cause data). A wait of
-- the late rank in another collective, or for a send or receive, is no cause of its own: it is carried back to the rank that
-- it waited for, and so on. So cost_ns of all rows of a run add up to wait_ns of stragglers.
-- Below 0 the rank spent less time on it than those that waited; charged_ns shares that out: it divides the waits among the
-- causes above 0, so that what all late ranks cost is what is waited. A delay that a greater one of another rank hides costs
-- next to nothing. A rank that is late for no cause has one row without any; cost_ns is NULL where no wait of the run is known.
-- What a rank computes is compared by class with the median of all ranks that run the class, from the first collective that
-- ranks share to the last: a slow GPU takes longer in every class, a rank with more work in some.
-- A scope chooses the waits, by the collective of the rank that waits. What caused one is traced in the whole recording: costs of
-- disjoint scopes add up to that of the recording.
-- /// query
-- title = "Causes of late ranks"
-- needs = ["kernels"]
-- show = ["run", "rank", "cause", "detail", "charged_ns", "cost_ns", "direct_ns", "inherited_ns", "reason"]
-- chart = { kind = "bars", x = "cause", y = ["cost_ns"], by = "rank" }
-- hints = [
--     { when = "lacks_several_ranks($run)", text = "no run has several ranks; ingest the traces of all ranks as one run", empty = true },
-- ]
-- [params]
-- common = ["run"]
-- rank = { type = "integer", about = "only this rank" }
-- min_gap_ns = { default = 30000, about = "a longer gap before work that was launched in time is a dependency, not overhead" }
-- step_name = "common"
-- loader_name = "common"
-- [columns]
-- run = "common"
-- rank = "common"
-- cause = "compute, communication, copies; if idle data, host, dependency, overhead, unknown; start: not yet recorded; wait: not carried back."
-- detail = "Class of the kernels, kind of collective, memcpy or memset; NULL for idle time."
-- cost_ns = "Waits of other ranks because of it, added up."
-- direct_ns = "The part of it in collectives that this rank entered last."
-- inherited_ns = "The part that reached collectives through the lateness of other ranks."
-- of_window_sum_ratio = "cost_ns / window_sum_ns."
-- window_sum_ns = "Window of each device with such collectives, added up over the ranks of the run."
-- cause_cost_ns = "cost_ns of all rows of the rank and cause, added up."
-- details = "Of them the details with the highest cost_ns, and their parts of what is above 0."
-- compute_ns = "Time in which the rank computes, as compared."
-- median_compute_ns = "Median of compute_ns over the ranks of the run."
-- slowdown_factor = "compute_ns / median_compute_ns."
-- classes = "Classes of kernels that this rank and another one run."
-- slow_classes = "Those in which this rank computes more than 5 % longer than the median."
-- charged_ns = "Its share of all waits of the run: cause_charged_ns, divided by cost_ns where that is above 0; all rows add up to the waits."
-- cause_charged_ns = "The waits of the run, divided among ranks and causes in proportion to cause_cost_ns where that is above 0."
-- loader_ns = "Of cause data: how much longer the rank waits for its data loader than the median of the ranks; NULL where it does not."
-- loader_step = "Of cause data: the step with the longest of these waits, where ranges mark steps."
-- late_step = "Where it costs most: loader_step, else the step whose collectives wait longest for the rank, over all causes."
-- late_steps = "That step, or all whose waits for the rank are at least half as long, in words."
-- reason = "Why no wait for other ranks is known of the rank; NULL where one is."
-- [report]
-- section = "communication"
-- order = 4
-- row = "cause[s] of late ranks"
-- row_key = "case when charged_ns > 0 then concat_ws(' ', rank, cause) end"
-- show_if = "cost_ns > 0"
-- without = "no rank waits for another one in a collective found on both: ingest the traces of all ranks as one run"
-- ok_text = "No cause on one rank keeps the others waiting for more than 2 % of the time of all ranks."
-- unknown = "Why ranks are late is not known: no collective was found on several ranks."
-- [[report.findings]]
-- when = "cause = 'compute' and slow_classes = classes and classes > 1 and cause_charged_ns > 0.02 * nullif(window_sum_ns, 0)"
-- by = "charged_ns"
-- cost = { ns = "charged_ns", rows = "cause = 'compute' and slow_classes = classes and classes > 1", adds = ["rank"], topics = ["waiting"], detail = 4, joins = true }
-- next = "rank_balance"
-- text = "{where} is late because its GPU is slow: it computes for {slowdown_factor} times the median of the ranks, and longer in all of its {classes} classes of kernels ({details}). The others wait for it[, most of all in {late_steps}]."
-- step = "late_step"
-- advice = "Compare its clocks, power and temperature, and its share of the work, with those of another one."
-- what_if = "on_time"
-- [[report.findings]]
-- when = "cause = 'compute' and slowdown_factor > 1.02 and (slow_classes < classes or classes < 2) and cause_charged_ns > 0.02 * nullif(window_sum_ns, 0)"
-- by = "charged_ns"
-- cost = { ns = "charged_ns", rows = "cause = 'compute' and slowdown_factor > 1.02 and (slow_classes < classes or classes < 2)", adds = ["rank"], topics = ["waiting"], detail = 4, joins = true }
-- next = "rank_balance"
-- text = "{where} is late because its kernels take longer than those of the others, which wait for it[, most of all in {late_steps}]: {details}."
-- step = "late_step"
-- advice = "Compare its share of the work with that of another rank, then clocks, power and temperature."
-- what_if = "on_time"
-- [[report.findings]]
-- when = "cause = 'compute' and slowdown_factor <= 1.02 and cause_charged_ns > 0.02 * nullif(window_sum_ns, 0)"
-- by = "charged_ns"
-- cost = { ns = "charged_ns", rows = "cause = 'compute' and slowdown_factor <= 1.02", adds = ["rank"], topics = ["waiting"], detail = 4, joins = true }
-- next = "step_lateness"
-- text = "{where} still computes when the others enter collectives and wait for it, though in all it computes no longer than they do ({slowdown_factor} times the median): it does the same work later, or in another order[; they wait most of all in {late_steps}]."
-- step = "late_step"
-- advice = "Find where it falls behind: its steps in step_lateness, and beside those of another rank in the timeline."
-- what_if = "on_time"
-- [[report.findings]]
-- when = "cause = 'host' and cause_charged_ns > 0.02 * nullif(window_sum_ns, 0)"
-- by = "charged_ns"
-- cost = { ns = "charged_ns", rows = "cause = 'host'", adds = ["rank"], topics = ["waiting"], detail = 4, joins = true }
-- next = "cpu_breakdown"
-- text = "{where} is late because its CPU side launches work later than those of the others, which wait for it[, most of all in {late_steps}]."
-- step = "late_step"
-- advice = "See what its CPU threads do meanwhile: cpu_breakdown, op_summary, and the timeline; a pause of one rank may be garbage collection or a slow core."
-- what_if = "on_time"
-- [[report.findings]]
-- when = "cause = 'data' and cause_charged_ns > 0.02 * nullif(window_sum_ns, 0)"
-- by = "charged_ns"
-- cost = { ns = "charged_ns", rows = "cause = 'data'", adds = true, topics = ["waiting"], detail = 4, adds_to = "data_loader_wait" }
-- next = "data_loader_wait"
-- text = "{where} is late because it waits for its data loader[, in all {loader_ns} longer than the median of the ranks]; the others wait for it[, longest in step {late_step}]."
-- every = "{where} are waits for data, during which the other ranks wait, too[, longest for rank {rank} in step {late_step}]."
-- step = "late_step"
-- advice = "More loader workers, `persistent_workers`, a faster decoder, or a cache of what is decoded."
-- what_if = "no_data_waits"
-- [[report.findings]]
-- when = "cause not in ('compute', 'host', 'data', 'start') and cause_charged_ns > 0.02 * nullif(window_sum_ns, 0)"
-- by = "charged_ns"
-- cost = { ns = "charged_ns", rows = "cause not in ('compute', 'host', 'data', 'start')", adds = ["rank", "cause"], topics = ["waiting"], detail = 4, joins = true }
-- next = "rank_balance"
-- text = "{where} is late because of {cause}[ ({details})]: since it was last together with the ranks that wait for it, it spends more time on that than they do[, most of all in {late_steps}]."
-- step = "late_step"
-- advice = "Compare its gpu_breakdown and idle_causes with those of another rank."
-- what_if = "on_time"
-- [[report.findings]]
-- when = "cause = 'start' and cause_charged_ns > 0.02 * nullif(window_sum_ns, 0)"
-- by = "charged_ns"
-- cost = { ns = "charged_ns", rows = "cause = 'start'", adds = ["rank"], topics = ["waiting"], detail = 4, joins = true, ranked = false }
-- next = "stragglers"
-- text = "{where} enters its first collective late, and the others wait for it. Its recording begins later than theirs, so the cause is not recorded."
-- advice = "Start the profilers of all ranks behind a barrier, and record two steps or more: then what the rank did since the last common collective is known."
-- ///
with marked as (
    select run, source, rank, pid, name, scope, start_ns, end_ns, in_scope from recorded_annotations where matches(run, $run)
),
loads as materialized (
    select run, source, rank, pid, start_ns, end_ns, in_scope
    from marked
    where scope = 'cpu' and regexp_matches(name, $loader_name) and has_valid_interval(start_ns, end_ns)
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
scope_rows as not materialized (
    select a.run, a.source, a.rank, a.device, a.start_ns, a.end_ns
    from gpu_activity as a
    semi join hint_small('lanes') as l
        on a.run = l.run and a.source = l.source and a.rank = l.rank and a.device is not distinct from l.device
),
window_sums as (
    select run, sum(window_ns) as window_sum_ns from scope_windows('scope_rows') group by run
),
costs as (
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
),
numbered as materialized (
    select *, row_number() over (order by run, rank, cause, detail) as id from costs
),
placed as materialized (
    select
        *,
        min(id) over (partition by run, rank, cause) as cause_id,
        sum(cost_ns) over (partition by run, rank, cause) as cause_cost_ns,
        sum(greatest(cost_ns, 0)) over (partition by run, rank, cause) as above_ns,
        row_number() over (partition by run, rank, cause order by cost_ns desc) as place
    from numbered
),
details as (
    select
        run, rank, cause,
        string_agg(format('{} {:.0f} %', detail, 100 * cost_ns / above_ns), ', ' order by place)
            || case when count(*) filter (cost_ns > 0) > 4 then ', …' else '' end as details
    from placed
    where place <= 4 and cost_ns > 0 and cause_cost_ns > 0 and detail is not null
    group by run, rank, cause
),
waited as (
    select run, sum(cost_ns) as wait_ns from costs group by run
),
cause_weights as (
    select c.run as part, c.id, w.wait_ns as total, greatest(c.cause_cost_ns, 0) as weight
    from placed as c
    join waited as w on c.run = w.run
    where c.id = c.cause_id
),
cause_charges as materialized (
    from apportion('cause_weights')
),
detail_weights as (
    select c.cause_id as part, c.id, a.share as total, greatest(c.cost_ns, 0) as weight
    from placed as c
    join cause_charges as a on c.cause_id = a.id
),
charges_of_rows as (
    select d.id, d.share as charged_ns, c.share as cause_charged_ns
    from apportion('detail_weights') as d
    join cause_charges as c on d.part = c.id
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
class_medians as (
    select
        run, rank, state, dur_ns,
        median(dur_ns) over (partition by run, state) as median_ns,
        count(*) over (partition by run, state) as ranks
    from class_times
),
speeds as (
    select
        run, rank,
        sum(dur_ns) as compute_ns,
        count(*) filter (ranks > 1) as classes,
        count(*) filter (ranks > 1 and dur_ns > 1.05 * median_ns) as slow_classes
    from class_medians
    group by run, rank
),
compared as (
    select *, floor(median(compute_ns) over (partition by run)) as median_compute_ns from speeds
),
steps as materialized (
    from steps_of('marked', $step_name)
),
awaited_in_steps as (
    select w.run, w.last_rank as rank, s.step, sum(w.wait_ns) as wait_ns
    from collective_waits as w
    join entered_steps('collective_waits', 'steps') as s on w.run = s.run and w.number = s.number
    where w.in_scope and w.last_rank is not null and not w.is_p2p
    group by w.run, w.last_rank, s.step
),
awaited_steps as (
    select
        run, rank, arg_max(step, (wait_ns, -step)) as step,
        list(step order by step) filter (2 * wait_ns >= longest_ns) as steps
    from (select *, max(wait_ns) over (partition by run, rank) as longest_ns from awaited_in_steps)
    where wait_ns > 0
    group by run, rank
),
loads_of_ranks as (
    select m.run, m.rank, coalesce(sum(l.end_ns - l.start_ns), 0) as loader_ns
    from (select distinct run, rank from matched_collectives) as m
    left join loads as l on m.run = l.run and m.rank = l.rank and l.in_scope
    group by m.run, m.rank
),
excess_loads as (
    select run, rank, loader_ns - floor(median(loader_ns) over (partition by run)) as excess_ns
    from loads_of_ranks
),
loader_steps as (
    select l.run, l.rank, arg_max(s.step, (l.end_ns - l.start_ns, -l.start_ns)) as step
    from loads as l
    join steps as s
        on l.run = s.run and l.source = s.source and l.rank = s.rank and l.pid is not distinct from s.pid
        and l.start_ns >= s.start_ns and l.start_ns < s.end_ns
    where l.in_scope
    group by l.run, l.rank
),
ranks as (
    select m.run, m.rank, m.reason, r.window_sum_ns
    from (
        select
            run, rank,
            case when count(wait_ns) = 0 then mode(unknown_wait_reason(reason, is_p2p, collective)) end as reason
        from collective_waits
        group by run, rank
    ) as m
    left join window_sums as r on m.run = r.run
)
select
    r.run, r.rank, c.cause, c.detail,
    case when r.window_sum_ns is not null then as_bigint(coalesce(c.cost_ns, 0)) end as cost_ns,
    case when r.window_sum_ns is not null then as_bigint(coalesce(c.direct_ns, 0)) end as direct_ns,
    case when r.window_sum_ns is not null then as_bigint(coalesce(c.cost_ns - c.direct_ns, 0)) end as inherited_ns,
    coalesce(c.cost_ns, 0) / nullif(r.window_sum_ns, 0) as of_window_sum_ratio,
    as_bigint(r.window_sum_ns) as window_sum_ns,
    case when r.window_sum_ns is not null then as_bigint(coalesce(c.cause_cost_ns, 0)) end as cause_cost_ns,
    d.details,
    as_bigint(s.compute_ns) as compute_ns,
    as_bigint(s.median_compute_ns) as median_compute_ns,
    s.compute_ns / nullif(s.median_compute_ns, 0) as slowdown_factor,
    s.classes, s.slow_classes,
    case when r.window_sum_ns is not null then as_bigint(zero_if_missing(g.id, g.charged_ns)) end as charged_ns,
    case when r.window_sum_ns is not null then as_bigint(zero_if_missing(g.id, g.cause_charged_ns)) end as cause_charged_ns,
    case when c.cause = 'data' and e.excess_ns > 0 then as_bigint(e.excess_ns) end as loader_ns,
    case when c.cause = 'data' then p.step end as loader_step,
    case when c.cause is not null and c.cause <> 'start' then coalesce(loader_step, a.step) end as late_step,
    case
        when late_step is null then null
        when loader_step is not null or len(a.steps) = 1 then format('step {}', late_step)
        when len(a.steps) > 4 then format('step {} and {} other steps', late_step, len(a.steps) - 1)
        else format('steps {} and {}', list_aggregate(a.steps[:-2], 'string_agg', ', '), a.steps[-1])
    end as late_steps,
    r.reason
from ranks as r
left join placed as c on r.run = c.run and r.rank = c.rank
left join charges_of_rows as g on c.id = g.id
left join details as d on c.run = d.run and c.rank = d.rank and c.cause = d.cause
left join compared as s on r.run = s.run and r.rank = s.rank
left join excess_loads as e on r.run = e.run and r.rank = e.rank
left join loader_steps as p on r.run = p.run and r.rank = p.rank
left join awaited_steps as a on r.run = a.run and r.rank = a.rank
where matches(r.rank, $rank)
order by r.run, c.cost_ns desc nulls last, r.rank, c.cause, c.detail
