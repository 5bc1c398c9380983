-- Which stage makes each training step as long as it is, and on which rank, without comparing clocks.
-- A row is one run, step and stage: idle, copies, compute, then communication, whose time holds the waiting for others. Of
-- each rank only durations count. The frontier after a stage is the longest time that any rank has spent in the stages up to
-- it; what the stage adds to the frontier is exposed, so they add up to the step's longest time over the ranks. The
-- leader is the rank at the frontier. Where it leads by less than 1 % of the step, or was not itself the longest in a stage
-- that is exposed, the cause is not certain: the verdict is ambiguous. Each nanosecond of a step counts once:
-- compute, then communication, then copies and memsets, then rows outside of the scope, if there is one, else idle: these are then
-- a stage of their own after idle. A GPU is a rank of its own where a rank has several.
-- /// query
-- title = "Frontier of steps over ranks"
-- needs = ["kernels", "annotations"]
-- subject = "time"
-- show = ["run", "step", "stage", "exposed_ns", "of_step_ratio", "leader", "lead_ns", "verdict"]
-- chart = { kind = "curves", x = "step", y = ["exposed_ns"], by = "stage", panel = ["run"] }
-- hints = [
--     { when = "lacks_several_ranks($run)", text = "no run has several ranks; ingest the traces of all ranks as one run", empty = true },
-- ]
-- [params]
-- common = ["run"]
-- step = { type = "integer", example = 3, about = "only this step: from its first start on any rank to its last end" }
-- step_name = "common"
-- [columns]
-- run = "common"
-- step = "Number of the step."
-- stage = "idle, out of scope, copies, compute or communication."
-- exposed_ns = "What the stage adds to the frontier."
-- of_step_ratio = "exposed_ns / step_ns."
-- step_ns = "The step's longest duration over the ranks."
-- leader = "Rank at the frontier after the stage; of several the lowest."
-- lead_ns = "By how much it is ahead of the next one."
-- stage_ns = "How long the stage takes on the leader."
-- median_ns = "How long it takes on the median rank."
-- ranks = "Ranks with the step."
-- verdict = "clear or ambiguous; NULL where the stage is not exposed, or the step has one rank."
-- ///
with steps as materialized (
    from recorded_steps($run, null, $step_name) where step is not null and end_ns > start_ns
),
executions as not materialized (
    select
        run, source, rank, pid, device, stream, name, start_ns, end_ns, dur_ns, correlation, kind as part
    from gpu_activity
    where matches(run, $run)
),
lanes as materialized (
    select (row_number() over (order by run, rank, source, device))::integer as lane, run, source, rank, device
    from (select distinct run, source, rank, device from executions)
    semi join steps using (run, source, rank)
),
windows_of_steps as materialized (  -- of two processes of a rank the one that begins first
    select l.lane, l.run, l.rank, s.step, min(s.start_ns) as start_ns, arg_min(s.end_ns, s.start_ns) as end_ns
    from steps as s
    join lanes as l on s.run = l.run and s.source = l.source and s.rank = l.rank
    group by l.lane, l.run, l.rank, s.step
),
cuts as materialized (
    from cuts_at('windows_of_steps')
),
work as (
    from layer_rows('executions', 'lanes')
),
times as materialized (
    from layer_times('work', 'cuts')
),
spent as materialized (
    select
        w.run, w.step, w.rank, w.lane,
        w.end_ns - w.start_ns as dur_ns,
        coalesce(t.exposed_memory_ns, 0) as copies_ns,
        coalesce(t.compute_ns, 0) as compute_ns,
        coalesce(t.exposed_comm_ns, 0) as communication_ns,
        coalesce(t.out_of_scope_ns, 0) as out_of_scope_ns,
        w.end_ns - w.start_ns - copies_ns - compute_ns - communication_ns - out_of_scope_ns as idle_ns
    from windows_of_steps as w
    join cuts as c on w.lane = c.lane and w.end_ns = c.at_ns
    left join times as t on c.cell = t.cell
),
stages as (
    select run, step, rank, lane, 1 as place, 'idle' as stage, idle_ns as own_ns, idle_ns as so_far_ns from spent
    union all
    select run, step, rank, lane, 2, 'out of scope', out_of_scope_ns, idle_ns + out_of_scope_ns
    from spent
    where run in (select run from spent where out_of_scope_ns > 0)
    union all
    select run, step, rank, lane, 3, 'copies', copies_ns, idle_ns + out_of_scope_ns + copies_ns from spent
    union all
    select run, step, rank, lane, 4, 'compute', compute_ns, dur_ns - communication_ns from spent
    union all
    select run, step, rank, lane, 5, 'communication', communication_ns, dur_ns from spent
),
frontiers as (
    select
        run, step, place, stage,
        max(so_far_ns) as frontier_ns,
        max(so_far_ns) - max(so_far_ns, 2)[2] as lead_ns,
        arg_max({'rank': rank, 'own_ns': own_ns}, (so_far_ns, -lane)) as leader,
        max(own_ns) as longest_ns,
        median(own_ns) as median_ns,
        count(*) as ranks
    from stages
    group by run, step, place, stage
),
exposed as (
    select
        *,
        frontier_ns - coalesce(lag(frontier_ns) over (partition by run, step order by place), 0) as exposed_ns,
        max(frontier_ns) over (partition by run, step) as step_ns
    from frontiers
)
select
    run, step, stage,
    as_bigint(exposed_ns) as exposed_ns,
    exposed_ns / nullif(exposed.step_ns, 0) as of_step_ratio,
    as_bigint(exposed.step_ns) as step_ns,
    leader.rank::bigint as leader,
    as_bigint(lead_ns) as lead_ns,
    as_bigint(leader.own_ns) as stage_ns,
    as_bigint(floor(median_ns)) as median_ns,
    ranks,
    case
        when ranks < 2 or exposed_ns = 0 then null
        when 100 * lead_ns < exposed.step_ns or leader.own_ns < longest_ns then 'ambiguous'
        else 'clear'
    end as verdict
from exposed
where matches(step, $step)
order by run, step, place
