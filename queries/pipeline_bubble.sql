-- How long the stages of a pipeline have nothing to do in each training step.
-- A row is one run, rank and step. The window lasts from the step's first kernel of a forward pass to its last one of a
-- backward pass: kernels launched by ops that autograd numbers, backward inside of `autograd::engine::evaluate_function`. The
-- bubble is the time in it without compute, and without communication other than that of the pipeline (see process_groups):
-- warm-up until the first backward kernel, drain after the last forward kernel, steady between. The ideal one of 1F1B with p
-- stages and m microbatches is (p - 1) / (m + p - 1). Without a pipeline, stages and the bubble with its parts are NULL.
-- /// query
-- title = "Pipeline bubbles"
-- needs = ["annotations", "ops"]
-- subject = "communication"
-- show = ["run", "rank", "step", "stage", "compute_ns", "bubble_ns", "bubble_ratio", "ideal_ratio"]
-- chart = { kind = "stacked", x = "rank", y = ["compute_ns", "communication_ns", "out_of_scope_ns", "warm_up_ns", "steady_ns", "drain_ns"], by = "step" }
-- hints = [
--     { when = "lacks_pipelines($run)", text = "no pipeline stages are known, so there is no bubble: no process group only sends and receives, or has a description that names a pipeline", empty = true },
-- ]
-- [params]
-- common = ["run", "rank"]
-- step_name = "common"
-- [columns]
-- common = ["run", "rank"]
-- step = "Number of the step."
-- stage = "Place of the rank in its pipeline, from 0."
-- stages = "Ranks of its pipeline, p."
-- microbatches = "Most sends of the rank to one other in the step, m."
-- window_ns = "From the first forward to the last backward kernel; NULL where either is not known."
-- compute_ns = "Time in it in which a kernel that does not communicate, or a whole graph, ran."
-- communication_ns = "Time in it in which other communication than that of the pipeline ran, and no compute."
-- bubble_ns = "The rest of window_ns, without out_of_scope_ns; NULL where no stages are known."
-- bubble_ratio = "bubble_ns / window_ns."
-- warm_up_ns = "The part of bubble_ns before the first backward kernel."
-- steady_ns = "The part between."
-- drain_ns = "The part after the last forward kernel."
-- ideal_slots = "p - 1."
-- slots = "m + p - 1."
-- ideal_ratio = "ideal_slots / slots."
-- out_of_scope_ns = "Time in window_ns in which only kernels and graphs outside of the scope ran; 0 without a scope."
-- ///
with steps as materialized (
    select * from recorded_steps($run, $rank, $step_name) where step is not null
),
executions as not materialized (
    select run, source, rank, pid, device, stream, name, start_ns, end_ns, dur_ns, correlation, kind as part
    from gpu_activity
    where kind in ('kernel', 'graph') and matches(run, $run) and matches(rank, $rank)
),
communication as not materialized (  -- of all ranks, in the scope or not: roles of groups depend on them
    from communication_kernels where id > 0
),
groups as materialized (
    from role_groups('communication')
),
carried as materialized (
    from with_role('communication', 'groups') where in_scope and matches(rank, $rank)
),
compute as materialized (
    select run, source, rank, device, start_ns, end_ns
    from with_class('executions')
    where class <> 'communication' or part = 'graph'
),
lanes as materialized (
    select (row_number() over (order by run, rank, source, device))::integer as lane, run, source, rank, device
    from (select distinct run, source, rank, device from compute)
),
placed as (
    select l.lane, c.start_ns, c.end_ns
    from compute as c
    join lanes as l on c.run = l.run and c.source = l.source and c.rank = l.rank and c.device is not distinct from l.device
),
passes as materialized (
    select l.lane, p.run, p.rank, p.step, p.begin_ns, p.end_ns, p.first_backward_ns, p.last_forward_ns
    from pipeline_passes as p
    join lanes as l on p.run = l.run and p.source = l.source and p.rank = l.rank and p.device is not distinct from l.device
),
cuts as materialized (
    select lane, at_ns, row_number() over (order by lane, at_ns desc) as cell
    from (
        select distinct lane, unnest([begin_ns, first_backward_ns, least(last_forward_ns, end_ns), end_ns]) as at_ns from passes
    )
),
others as (
    from out_of_scope_layers where layer < 2
),
work as (
    select lane, 0::tinyint as layer, start_ns, end_ns
    from placed
    where has_valid_interval(start_ns, end_ns)
    union all
    select l.lane, 1, c.start_ns, c.end_ns
    from carried as c
    join lanes as l on c.run = l.run and c.source = l.source and c.rank = l.rank and c.device is not distinct from l.device
    where c.role <> 'pp' and has_valid_interval(c.start_ns, c.end_ns)
    union all
    select lane, 3 + layer, start_ns, end_ns from out_of_scope_stretches('lanes', 'others')
),
times as materialized (
    from layer_times('work', 'cuts')
),
parts as (
    select
        p.run, p.rank, p.step, t.compute_ns, t.exposed_comm_ns, t.out_of_scope_ns, t.idle_ns,
        case
            when c.at_ns <= p.first_backward_ns then 'warm_up'
            when c.at_ns <= p.last_forward_ns then 'steady'
            else 'drain'
        end as part
    from passes as p
    join cuts as c on p.lane = c.lane and c.at_ns > p.begin_ns and c.at_ns <= p.end_ns
    join times as t on c.cell = t.cell
),
sums as (
    select
        run, rank, step,
        sum(compute_ns) as compute_ns,
        sum(exposed_comm_ns) as communication_ns,
        sum(out_of_scope_ns) as out_of_scope_ns,
        sum(idle_ns) as bubble_ns,
        sum(compute_ns + exposed_comm_ns + out_of_scope_ns + idle_ns) as window_ns,
        coalesce(sum(idle_ns) filter (part = 'warm_up'), 0) as warm_up_ns,
        coalesce(sum(idle_ns) filter (part = 'steady'), 0) as steady_ns,
        coalesce(sum(idle_ns) filter (part = 'drain'), 0) as drain_ns
    from parts
    group by run, rank, step
),
pipelines as (  -- the longest one that a rank is in
    select run, rank, max_by(list_position(members, rank) - 1, len(members)) as stage, max(len(members)) as stages
    from (select run, members, unnest(members)::integer as rank from groups where role = 'pp')
    group by run, rank
),
sends as (
    select run, rank, step, max(sends) as microbatches
    from (
        select p.run, p.rank, p.step, c.dst_rank, count(*) as sends
        from (from carried where is_p2p and src_rank = rank) as c
        asof join (select run, rank, step, min(begin_ns) as begin_ns from passes group by run, rank, step) as p
            on c.run = p.run and c.rank = p.rank and c.start_ns >= p.begin_ns
        group by p.run, p.rank, p.step, c.dst_rank
    )
    group by run, rank, step
),
known as (
    select distinct run, rank, step from steps
)
select
    k.run, k.rank, k.step,
    l.stage::bigint as stage,
    l.stages::bigint as stages,
    n.microbatches,
    as_bigint(s.window_ns) as window_ns,
    as_bigint(s.compute_ns) as compute_ns,
    as_bigint(s.communication_ns) as communication_ns,
    case when l.stages is not null then as_bigint(s.bubble_ns) end as bubble_ns,
    case when l.stages is not null then s.bubble_ns / nullif(s.window_ns, 0) end as bubble_ratio,
    case when l.stages is not null then as_bigint(s.warm_up_ns) end as warm_up_ns,
    case when l.stages is not null then as_bigint(s.steady_ns) end as steady_ns,
    case when l.stages is not null then as_bigint(s.drain_ns) end as drain_ns,
    (l.stages - 1)::bigint as ideal_slots,
    (n.microbatches + l.stages - 1)::bigint as slots,
    (l.stages - 1) / nullif(n.microbatches + l.stages - 1, 0) as ideal_ratio,
    as_bigint(s.out_of_scope_ns) as out_of_scope_ns
from known as k
left join sums as s on k.run = s.run and k.rank = s.rank and k.step = s.step
left join pipelines as l on k.run = l.run and k.rank = l.rank
left join sends as n on k.run = n.run and k.rank = n.rank and k.step = n.step
order by k.run, k.rank, k.step
