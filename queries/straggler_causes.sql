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
-- chart = { kind = "bars", x = "cause", y = ["charged_ns"], by = "rank" }
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
devices as (  -- those whose waits are known
    select distinct run, source, rank, device from collective_waits where last_rank is not null
),
scope_rows as not materialized (
    select a.run, a.source, a.rank, a.device, a.start_ns, a.end_ns
    from gpu_activity as a
    semi join hint_small('devices') as l
        on a.run = l.run and a.source = l.source and a.rank = l.rank and a.device is not distinct from l.device
),
window_sums as (
    select run, sum(window_ns) as window_sum_ns from scope_windows('scope_rows') group by run
),
costs as (
    select run, rank, cause, detail, cost_ns::hugeint as cost_ns, direct_ns::hugeint as direct_ns
    from delay_costs
    where cost_ns is not null
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
class_medians as (
    select
        run, rank, compute_ns::hugeint as dur_ns,
        median(compute_ns::hugeint) over (partition by run, detail) as median_ns,
        count(*) over (partition by run, detail) as ranks
    from delay_costs
    where compute_ns is not null
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
