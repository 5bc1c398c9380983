-- Which rank the others wait for in collectives, how often, and what that costs.
-- A row is one run and rank. A rank causes the waits of all others in the collectives that it starts last (see
-- collective_wait); alone it could remove only what lies between its start and that of the last but one. The rank that waits
-- least is the one that comes late. Exposed waiting is the part in which none of the rank's kernels computes: only that costs
-- time. `chance` is the probability that a rank is last at least so often if each rank of a collective is equally likely:
-- 0.001 means that this is hardly chance. A rank is persistent if it is last in more than half, and in more than three times
-- its share (at most 90 %), of the collectives in at least two thirds of five steps or more; else changing. A collective
-- belongs to the step that contains its start on the last rank. Sends and receives are no collectives: a pipeline's stages
-- wait for each other by design, so their waits are apart; their transfers last from the later start of the two on.
-- A broadcast or reduction counts as a collective where no rank left it before the last one entered. Others are apart: where
-- one is found on all ranks of its group, the shortest of its kernels is the transfer, at the end of each, and the rest is
-- waiting. Of a run without kernels these are the ranges of gloo, MPI and UCC, and ops that compute hide them.
-- /// query
-- title = "Stragglers"
-- needs = ["kernels", "annotations"]
-- show = ["run", "rank", "collectives", "wait_ns", "times_last", "caused_wait_ns", "removable_ns", "persistence", "reason"]
-- chart = { kind = "bars", x = "rank", y = ["wait_ns", "caused_wait_ns"], by = "run" }
-- hints = [
--     { when = "lacks_several_ranks($run) and lacks_cpu_communication($run, null)", text = "no run has several ranks; ingest the traces of all ranks as one run" },
--     { when = "lacks_communication($run) and lacks_cpu_communication($run, null)", text = "no kernel communicates; record several ranks of a distributed job", empty = true },
-- ]
-- [params]
-- common = ["run"]
-- rank = { type = "integer", about = "only this rank" }
-- step_name = "common"
-- [columns]
-- common = ["run", "rank"]
-- collectives = "Matched collectives that no rank can leave before all have entered, and broadcasts and reductions that none did."
-- dur_ns = "common"
-- wait_ns = "The part in which this rank waited for the last one."
-- wait_ratio = "wait_ns / dur_ns."
-- exposed_wait_ns = "Time of wait_ns in which no kernel of the rank and no whole graph computed."
-- transfer_ns = "dur_ns less wait_ns."
-- times_last = "Collectives that this rank started last."
-- last_ratio = "times_last / collectives."
-- chance = "Probability of times_last or more if all ranks are equally likely to be last."
-- caused_wait_ns = "Waits of the other ranks in the collectives that this rank started last."
-- removable_ns = "What those would be shorter by if this rank came with the last but one: that much of each, once."
-- unmatched = "Collectives of the rank that are not counted: partial, mismatched, cut, refused, or of another kind."
-- exposed_transfer_ns = "Time of transfer_ns in which no kernel of the rank and no whole graph computed."
-- lateness_ns = "Sum over the collectives of its entry less the median entry of the other ranks."
-- steps = "Steps in which it took part in such a collective."
-- steps_last = "Those in which it was last as often as a persistent rank is."
-- longest_steps = "The longest run of them in a row."
-- persistence = "persistent or changing, of a rank that is last in some step; NULL with fewer than five steps."
-- reason = "Why most of the unmatched are not counted. All other figures but theirs are NULL where none is counted."
-- p2p_dur_ns = "Durations of the rank's matched sends and receives, added up; NULL without any."
-- exposed_p2p_ns = "Time of their transfers in which no kernel of the rank and no whole graph computed."
-- exposed_p2p_wait_ns = "Time in which they wait for the other rank and none computes."
-- rooted_dur_ns = "Durations of the rank's other broadcasts and reductions, added up; NULL without any."
-- exposed_rooted_wait_ns = "Time in which they wait for a rank that enters later and none computes."
-- exposed_rooted_transfer_ns = "Time of the rest of them in which none computes."
-- rooted_unmatched = "Those that are not found on all ranks, and count whole as transfer."
-- awaited_rank = "The rank for which they wait most: its kernel is the shortest."
-- exposed_wait_kind = "Kind and process group of the collectives with most of exposed_wait_ns."
-- exposed_wait_step = "The step with most of that, by the marks of the rank."
-- exposed_transfer_kind = "Kind and process group of the collectives with most of exposed_transfer_ns and exposed_p2p_ns."
-- exposed_transfer_step = "The step with most of that, by the marks of the rank."
-- exposed_p2p_wait_kind = "Kind and process group of the collectives with most of exposed_p2p_wait_ns."
-- exposed_p2p_wait_step = "The step with most of that, by the marks of the rank."
-- exposed_rooted_wait_kind = "Kind and process group of the collectives with most of exposed_rooted_wait_ns."
-- exposed_rooted_wait_step = "The step with most of that, by the marks of the rank."
-- exposed_rooted_transfer_kind = "Kind and process group of the collectives with most of exposed_rooted_transfer_ns."
-- exposed_rooted_transfer_step = "The step with most of that, by the marks of the rank."
-- late_rank = "The rank for which this one waits longest, of wait_ns."
-- caused_exposed_wait_ns = "Exposed waiting of the others for this rank, added up over them: time in which one waits in several collectives counts once."
-- [report]
-- section = "communication"
-- order = 3
-- row = "rank[s]"
-- show_if = "collectives > 0 or p2p_dur_ns > 0 or rooted_dur_ns > 0"
-- without = "no collective was found on several ranks: ingest the traces of all ranks as one run"
-- ok_text = "No rank is the last in more than half of the collectives, or so often that it cannot be chance, and most of their time is hidden transfer."
-- unknown = "Which rank the others wait for is not known: no collective was found on several ranks."
-- [[report.findings]]
-- when = "times_last > 0.5 * nullif(collectives, 0) and chance < 0.01"
-- by = "caused_wait_ns"
-- cost = { ns = "caused_exposed_wait_ns", rows = "times_last > 0.5 * nullif(collectives, 0) and chance < 0.01", topics = ["waiting"], detail = 3, opens = "straggler_causes" }
-- next = ["straggler_causes", "rank_balance"]
-- text = "{where} is the last in {times_last of collectives} of the collectives; the others wait {caused_wait_ns} for it, added up."
-- advice = "If it entered together with the last rank but one, its collectives would be {removable_ns} shorter, added up. For what it does before them, run straggler_causes, or without a GPU rank_balance and cpu_breakdown."
-- what_if = "on_time"
-- [[report.findings]]
-- when = "wait_ns > 0.2 * nullif(dur_ns, 0)"
-- by = "exposed_wait_ns"
-- cost = { ns = "exposed_wait_ns", adds = true, topics = ["waiting"], detail = 2, opens = "straggler_causes" }
-- next = ["straggler_causes", "rank_balance"]
-- text = "[{where}: ]of its collectives {wait_ns of dur_ns} is waiting for ranks that enter later[, most for rank {late_rank}][, most in {exposed_wait_kind}][, worst in step {exposed_wait_step}]."
-- every = "{where}: of their collectives {wait_ns of dur_ns} is waiting for ranks that enter later[, most in {exposed_wait_kind}][, worst in step {exposed_wait_step} of rank {rank}][, which waits most for rank {late_rank}]."
-- step = "exposed_wait_step"
-- advice = "Ranks that take turns in being late have uneven work or noise; one that is always late has a cause of its own."
-- [[report.findings]]
-- when = "exposed_transfer_ns > 0.2 * nullif(dur_ns, 0) or exposed_p2p_ns > 0.2 * nullif(p2p_dur_ns, 0)"
-- by = "coalesce(exposed_transfer_ns, 0) + coalesce(exposed_p2p_ns, 0)"
-- cost = { ns = "coalesce(exposed_transfer_ns, 0) + coalesce(exposed_p2p_ns, 0)", adds = true, topics = ["transfer"], detail = 2 }
-- next = "collective_summary"
-- text = "[{where}: ]part of its transfers runs while nothing computes[, most in {exposed_transfer_kind}][, worst in step {exposed_transfer_step}][: {exposed_transfer_ns of dur_ns} of its collectives][, {exposed_p2p_ns of p2p_dur_ns} of its sends and receives]."
-- every = "{where}: part of their transfers runs while nothing computes[, most in {exposed_transfer_kind}][, worst in step {exposed_transfer_step} of rank {rank}][: {exposed_transfer_ns of dur_ns} of their collectives][, {exposed_p2p_ns of p2p_dur_ns} of their sends and receives]."
-- step = "exposed_transfer_step"
-- advice = "Overlap it with the backward pass (larger or smaller buckets, a stream of its own), or send less."
-- what_if = "ideal_network"
-- [[report.findings]]
-- when = "exposed_rooted_wait_ns > 0.2 * nullif(rooted_dur_ns, 0)"
-- by = "exposed_rooted_wait_ns"
-- cost = { ns = "exposed_rooted_wait_ns", adds = true, topics = ["receiving"], detail = 2 }
-- next = "collective_wait"
-- text = "[{where}: ]{exposed_rooted_wait_ns of rooted_dur_ns} of its broadcasts and reductions is waiting for ranks that enter later, while nothing computes[, most in {exposed_rooted_wait_kind}][, worst in step {exposed_rooted_wait_step}][; it waits most for rank {awaited_rank}]."
-- every = "{where}: {exposed_rooted_wait_ns of rooted_dur_ns} of their broadcasts and reductions is waiting for ranks that enter later, while nothing computes[, most in {exposed_rooted_wait_kind}][, worst in step {exposed_rooted_wait_step} of rank {rank}][; rank {rank} waits most for rank {awaited_rank}]."
-- step = "exposed_rooted_wait_step"
-- advice = "The cause is on the rank that enters last: see its data_loader_wait and cpu_breakdown. Without a broadcast of buffers (DDP: `broadcast_buffers=False`) the next collective waits in its place."
-- [[report.findings]]
-- when = "rooted_unmatched = 0 and exposed_rooted_transfer_ns > 0.2 * nullif(rooted_dur_ns, 0)"
-- by = "exposed_rooted_transfer_ns"
-- cost = { ns = "exposed_rooted_transfer_ns", rows = "rooted_unmatched = 0", adds = true, topics = ["transfer"], detail = 2 }
-- what_if = { change = "scale", class = "communication", factor = 0, without = "With communication that takes no time" }
-- next = "nccl_share"
-- text = "[{where}: ]{exposed_rooted_transfer_ns of rooted_dur_ns} of its broadcasts and reductions is transfer while nothing computes[, most in {exposed_rooted_transfer_kind}][, worst in step {exposed_rooted_transfer_step}]."
-- every = "{where}: {exposed_rooted_transfer_ns of rooted_dur_ns} of their broadcasts and reductions is transfer while nothing computes[, most in {exposed_rooted_transfer_kind}][, worst in step {exposed_rooted_transfer_step} of rank {rank}]."
-- step = "exposed_rooted_transfer_step"
-- advice = "DataParallel broadcasts the model in every step: use DDP. In DDP set `broadcast_buffers=False` where buffers need not agree."
-- [[report.findings]]
-- when = "rooted_unmatched > 0 and exposed_rooted_transfer_ns > 0.2 * nullif(rooted_dur_ns, 0)"
-- by = "exposed_rooted_transfer_ns"
-- cost = { ns = "exposed_rooted_transfer_ns", rows = "rooted_unmatched > 0", adds = true, topics = ["transfer"], detail = 2 }
-- what_if = { change = "scale", class = "communication", factor = 0, without = "With communication that takes no time" }
-- next = "nccl_share"
-- text = "[{where}: ]{exposed_rooted_transfer_ns of rooted_dur_ns} of its broadcasts and reductions runs while nothing computes[, most in {exposed_rooted_transfer_kind}][, worst in step {exposed_rooted_transfer_step}]; that may include waiting for ranks, which is not known of those that are not found on all ranks ({rooted_unmatched})."
-- every = "{where}: {exposed_rooted_transfer_ns of rooted_dur_ns} of their broadcasts and reductions runs while nothing computes[, most in {exposed_rooted_transfer_kind}][, worst in step {exposed_rooted_transfer_step} of rank {rank}]; that may include waiting for ranks, which is not known of those that are not found on all ranks."
-- step = "exposed_rooted_transfer_step"
-- advice = "To know how much of that is waiting, ingest the traces of all ranks as one run. DataParallel broadcasts the model in every step: use DDP. In DDP set `broadcast_buffers=False` where buffers need not agree."
-- [[report.findings]]
-- when = "exposed_p2p_wait_ns > 0.2 * nullif(p2p_dur_ns, 0)"
-- by = "exposed_p2p_wait_ns"
-- cost = { ns = "exposed_p2p_wait_ns", adds = true, topics = ["receiving"], detail = 2, ranked = false }
-- next = "pipeline_bubble"
-- text = "[{where}: ]{exposed_p2p_wait_ns of p2p_dur_ns} of its sends and receives is waiting for the other rank, while nothing computes[, most in {exposed_p2p_wait_kind}][, worst in step {exposed_p2p_wait_step}]."
-- every = "{where}: {exposed_p2p_wait_ns of p2p_dur_ns} of their sends and receives is waiting for the other rank, while nothing computes[, most in {exposed_p2p_wait_kind}][, worst in step {exposed_p2p_wait_step} of rank {rank}]."
-- step = "exposed_p2p_wait_step"
-- advice = "Between the stages of a pipeline that is the bubble, which a slow stage makes longer: pipeline_bubble compares it with the ideal one, and more microbatches make it shorter."
-- ///
with communication as not materialized (
    from communication_kernels where in_scope
),
all_waits as not materialized (
    from clocked_waits where in_scope
),
recorded_waits as materialized (
    select * replace (
        case when not is_p2p then wait_ns end as wait_ns,
        case when not is_p2p then last_rank end as last_rank
    )
    from clocked_waits
),
waits as not materialized (
    from recorded_waits where in_scope
),
rooted as materialized (  -- one that is not found on all ranks has no wait
    select * exclude (in_scope)
    from (
        select
            run, number, source, rank, device, start_ns, end_ns, duration_wait_ns as wait_ns,
            start_clock_ns, wait_end_clock_ns, end_clock_ns,
            arg_min(rank, (end_ns - start_ns, rank)) over (partition by run, number) as shortest_rank,
            in_scope
        from clocked_waits
        where may_synchronize(collective) and not is_p2p and last_rank is null
    )
    where in_scope
),
rooted_sums as (
    select
        run, rank,
        sum(end_ns - start_ns) as rooted_dur_ns,
        count(*) filter (wait_ns is null) as rooted_unmatched
    from rooted
    group by run, rank
),
awaited as (
    select run, rank, arg_max(shortest_rank, (wait_ns, -shortest_rank)) as awaited_rank
    from (select run, rank, shortest_rank, sum(wait_ns) as wait_ns from rooted group by run, rank, shortest_rank)
    where wait_ns > 0
    group by run, rank
),
late_ranks as (
    select run, rank, arg_max(last_rank, (wait_ns, -last_rank)) as late_rank
    from (select run, rank, last_rank, sum(wait_ns) as wait_ns from waits where wait_ns > 0 group by run, rank, last_rank)
    group by run, rank
),
caused as (
    select
        run, last_rank as rank,
        count(*) filter (rank = last_rank) as times_last,
        sum(wait_ns) as caused_wait_ns,
        sum(greatest(0, last_start_ns - next_start_ns)) filter (rank = last_rank) as removable_ns
    from waits
    where last_rank is not null
    group by run, last_rank
),
spans as (
    select
        run, number, source, rank, device, start_ns, last_start_ns as end_ns,
        start_clock_ns, last_start_clock_ns as end_clock_ns, 'wait' as part
    from waits
    where wait_ns > 0
    union all
    select run, number, source, rank, device, last_start_ns, end_ns, last_start_clock_ns, end_clock_ns, 'transfer'
    from waits
    where last_rank is not null
    union all
    select run, number, source, rank, device, start_ns + wait_ns, end_ns, wait_end_clock_ns, end_clock_ns, 'p2p'
    from all_waits
    where is_p2p and transfer_ns > 0
    union all
    select run, number, source, rank, device, start_ns, start_ns + wait_ns, start_clock_ns, wait_end_clock_ns, 'p2p wait'
    from all_waits
    where is_p2p and wait_ns > 0
    union all
    select run, number, source, rank, device, start_ns, start_ns + wait_ns, start_clock_ns, wait_end_clock_ns, 'rooted wait'
    from rooted
    where wait_ns > 0
    union all
    select
        run, number, source, rank, device, start_ns + coalesce(wait_ns, 0), end_ns,
        wait_end_clock_ns, end_clock_ns, 'rooted transfer'
    from rooted
),
p2p_sums as (
    select run, rank, sum(end_ns - start_ns) as p2p_dur_ns from all_waits where is_p2p and wait_ns is not null group by run, rank
),
steps as materialized (
    from recorded_steps($run, null, $step_name)
),
labels as (
    select m.run, m.number, m.rank, l.label
    from matched_collectives as m
    join with_label('communication') as l on m.id = l.id
),
labelled as (
    select s.* replace (case when s.part = 'p2p' then 'transfer' else s.part end as part), l.label
    from spans as s
    join labels as l on s.run = l.run and s.number = l.number and s.rank = l.rank
),
in_steps as materialized (
    from with_entered_step('labelled', 'steps')
),
measured as (  -- in one sweep
    select run, source, rank, device, start_ns, end_ns, start_clock_ns, end_clock_ns, part from spans
    union all
    select
        run, source, rank, device, start_ns, last_start_ns, start_clock_ns, last_start_clock_ns,
        format('for {}', last_rank)
    from waits
    where wait_ns > 0
    union all
    select
        run, source, rank, device, start_ns, end_ns, start_clock_ns, end_clock_ns,
        slice_key(part, label, step)
    from in_steps
),
clipped as materialized (
    from clip_to_clocks('measured')
),
exposed as (
    select
        run, rank,
        sum(busy_ns - inside_ns) filter (part = 'wait') as exposed_wait_ns,
        sum(busy_ns - inside_ns) filter (part = 'transfer') as exposed_transfer_ns,
        sum(busy_ns - inside_ns) filter (part = 'p2p') as exposed_p2p_ns,
        sum(busy_ns - inside_ns) filter (part = 'p2p wait') as exposed_p2p_wait_ns,
        sum(busy_ns - inside_ns) filter (part = 'rooted wait') as exposed_rooted_wait_ns,
        sum(busy_ns - inside_ns) filter (part = 'rooted transfer') as exposed_rooted_transfer_ns
    from clipped
    group by run, rank
),
caused_exposed as (
    select run, part[5:]::integer as rank, sum(busy_ns - inside_ns) as caused_exposed_wait_ns
    from clipped
    where starts_with(part, 'for ')
    group by all
),
most as (
    select run, rank, map_from_entries(list((part, {'kind': label, 'step': step}))) as of_part
    from (
        from most_exposed('in_steps', 'clipped')
        qualify row_number() over (partition by run, rank, part order by exposed_ns desc, device) = 1
    )
    group by run, rank
),
late as (
    select w.run, w.rank, sum(l.lateness_ns) as lateness_ns
    from waits as w
    join latenesses('recorded_waits') as l on w.run = l.run and w.number = l.number and w.rank = l.rank
    group by w.run, w.rank
),
last_in_steps as (
    select
        w.run, w.rank, s.step,
        count(*) filter (w.rank = w.last_rank) > greatest(0.5, least(0.9, 3 * avg(1 / w.ranks))) * count(*) as is_last
    from waits as w
    join entered_steps('recorded_waits', 'steps') as s on w.run = s.run and w.number = s.number
    group by w.run, w.rank, s.step
),
stretches as (  -- of steps in a row with the same answer
    select
        *,
        row_number() over (partition by run, rank order by step)
            - row_number() over (partition by run, rank, is_last order by step) as stretch
    from last_in_steps
),
persistences as (
    select
        run, rank,
        sum(steps)::bigint as steps,
        coalesce(sum(steps) filter (is_last), 0)::bigint as steps_last,
        coalesce(max(steps) filter (is_last), 0) as longest_steps
    from (select run, rank, is_last, stretch, count(*) as steps from stretches group by run, rank, is_last, stretch)
    group by run, rank
),
sums as (
    select
        run, rank,
        count(wait_ns) as collectives,
        sum(end_ns - start_ns) filter (wait_ns is not null) as dur_ns,
        sum(wait_ns) as wait_ns,
        avg(1 / ranks) filter (wait_ns is not null) as share,
        count(*) - count(wait_ns) as unmatched,
        mode(unknown_wait_reason(reason, is_p2p, collective)) filter (wait_ns is null) as reason
    from waits
    group by run, rank
),
answers as (
    select
        s.run, s.rank, s.collectives, s.dur_ns, s.wait_ns, s.share, s.unmatched, s.reason,
        case when s.collectives > 0 then coalesce(e.exposed_wait_ns, 0) end as exposed_wait_ns,
        case when s.collectives > 0 then coalesce(e.exposed_transfer_ns, 0) end as exposed_transfer_ns,
        p.p2p_dur_ns,
        case when p.p2p_dur_ns is not null then coalesce(e.exposed_p2p_ns, 0) end as exposed_p2p_ns,
        case when p.p2p_dur_ns is not null then coalesce(e.exposed_p2p_wait_ns, 0) end as exposed_p2p_wait_ns,
        o.rooted_dur_ns, o.rooted_unmatched,
        case when o.rooted_dur_ns is not null then coalesce(e.exposed_rooted_wait_ns, 0) end as exposed_rooted_wait_ns,
        case when o.rooted_dur_ns is not null then coalesce(e.exposed_rooted_transfer_ns, 0) end as exposed_rooted_transfer_ns,
        w.awaited_rank,
        case when s.collectives > 0 then coalesce(c.times_last, 0) end as times_last,
        case when s.collectives > 0 then coalesce(c.caused_wait_ns, 0) end as caused_wait_ns,
        case when s.collectives > 0 then coalesce(c.removable_ns, 0) end as removable_ns,
        case when s.collectives > 0 then coalesce(x.caused_exposed_wait_ns, 0) end as caused_exposed_wait_ns
    from sums as s
    left join caused as c on s.run = c.run and s.rank = c.rank
    left join exposed as e on s.run = e.run and s.rank = e.rank
    left join caused_exposed as x on s.run = x.run and s.rank = x.rank
    left join p2p_sums as p on s.run = p.run and s.rank = p.rank
    left join rooted_sums as o on s.run = o.run and s.rank = o.rank
    left join awaited as w on s.run = w.run and s.rank = w.rank
),
chances as (  -- the binomial tail
    select
        run, rank,
        sum(exp(
            lgamma(collectives + 1) - lgamma(k + 1) - lgamma(collectives - k + 1)
            + k * ln(share) + (collectives - k) * ln(1 - share)
        )) as chance
    from (select *, unnest(range(times_last, collectives + 1)) as k from answers where collectives > 0 and times_last > 0)
    group by run, rank
)
select
    a.run, a.rank, a.collectives,
    as_bigint(a.dur_ns) as dur_ns,
    as_bigint(a.wait_ns) as wait_ns,
    a.wait_ns / nullif(a.dur_ns, 0) as wait_ratio,
    as_bigint(a.exposed_wait_ns) as exposed_wait_ns,
    as_bigint(a.dur_ns - a.wait_ns) as transfer_ns,
    a.times_last,
    a.times_last / nullif(a.collectives, 0) as last_ratio,
    case when a.collectives > 0 then least(1, coalesce(c.chance, 1)) end as chance,
    as_bigint(a.caused_wait_ns) as caused_wait_ns,
    as_bigint(a.removable_ns) as removable_ns,
    a.unmatched,
    as_bigint(a.exposed_transfer_ns) as exposed_transfer_ns,
    as_bigint(l.lateness_ns) as lateness_ns,
    p.steps, p.steps_last, p.longest_steps,
    case
        when p.steps < 5 or a.times_last = 0 then null
        when 3 * p.steps_last >= 2 * p.steps then 'persistent'
        when p.steps is not null then 'changing'
    end as persistence,
    a.reason,
    as_bigint(a.p2p_dur_ns) as p2p_dur_ns,
    as_bigint(a.exposed_p2p_ns) as exposed_p2p_ns,
    as_bigint(a.exposed_p2p_wait_ns) as exposed_p2p_wait_ns,
    as_bigint(a.rooted_dur_ns) as rooted_dur_ns,
    as_bigint(a.exposed_rooted_wait_ns) as exposed_rooted_wait_ns,
    as_bigint(a.exposed_rooted_transfer_ns) as exposed_rooted_transfer_ns,
    a.rooted_unmatched,
    a.awaited_rank::bigint as awaited_rank,
    m.of_part['wait'].kind as exposed_wait_kind, m.of_part['wait'].step as exposed_wait_step,
    m.of_part['transfer'].kind as exposed_transfer_kind, m.of_part['transfer'].step as exposed_transfer_step,
    m.of_part['p2p wait'].kind as exposed_p2p_wait_kind, m.of_part['p2p wait'].step as exposed_p2p_wait_step,
    m.of_part['rooted wait'].kind as exposed_rooted_wait_kind, m.of_part['rooted wait'].step as exposed_rooted_wait_step,
    m.of_part['rooted transfer'].kind as exposed_rooted_transfer_kind, m.of_part['rooted transfer'].step as exposed_rooted_transfer_step,
    w.late_rank::bigint as late_rank,
    as_bigint(a.caused_exposed_wait_ns) as caused_exposed_wait_ns
from answers as a
left join most as m on a.run = m.run and a.rank = m.rank
left join late as l on a.run = l.run and a.rank = l.rank
left join late_ranks as w on a.run = w.run and a.rank = w.rank
left join persistences as p on a.run = p.run and a.rank = p.rank
left join chances as c on a.run = c.run and a.rank = c.rank
where matches(a.rank, $rank)
order by a.run, a.caused_wait_ns desc nulls last, a.rank
