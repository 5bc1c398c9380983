-- How late each rank is for collectives in each training step.
-- A row is one run, rank and step. A collective belongs to the step that contains its start on the last rank; only those that
-- no rank can leave before all have entered count (see collective_wait). A rank that is slow throughout is late in each step,
-- one that pauses in a single one. step_frontier answers without comparing clocks.
-- /// query
-- title = "Lateness by step"
-- needs = ["kernels", "annotations"]
-- subject = "communication"
-- show = ["run", "rank", "step", "collectives", "lateness_ns", "wait_ns", "times_last", "caused_wait_ns"]
-- chart = { kind = "curves", x = "step", y = ["lateness_ns"], by = "rank", panel = ["run"] }
-- hints = [
--     { when = "lacks_several_ranks($run) and lacks_cpu_communication($run, null)", text = "no run has several ranks; ingest the traces of all ranks as one run", empty = true },
-- ]
-- [params]
-- common = ["run"]
-- rank = { type = "integer", about = "only this rank" }
-- step_name = "common"
-- [columns]
-- common = ["run", "rank"]
-- step = "Number of the step."
-- collectives = "Matched collectives of the step."
-- lateness_ns = "Sum of the rank's entries less the median entries of the others; below 0 where it is early."
-- largest_lateness_ns = "The largest such difference of one collective."
-- wait_ns = "Time in which this rank waited for the last one."
-- times_last = "Collectives that this rank started last."
-- caused_wait_ns = "Waits of the other ranks in those."
-- ///
with waits as not materialized (
    from collective_waits where last_rank is not null and not is_p2p
),
steps as materialized (
    from recorded_steps($run, null, $step_name)
),
caused as (
    select run, number, sum(wait_ns) as caused_wait_ns from waits group by run, number
),
late as (
    select
        w.run, w.rank, s.step, l.lateness_ns, w.wait_ns,
        w.rank = w.last_rank as is_last,
        c.caused_wait_ns
    from waits as w
    join latenesses('waits') as l on w.run = l.run and w.number = l.number and w.rank = l.rank
    join entered_steps('waits', 'steps') as s on w.run = s.run and w.number = s.number
    join caused as c on w.run = c.run and w.number = c.number
    where w.in_scope
),
ranks as (
    select distinct run, rank, step from steps where step is not null and matches(rank, $rank)
)
select
    r.run, r.rank, r.step,
    count(l.step) as collectives,
    as_bigint(sum(l.lateness_ns)) as lateness_ns,
    as_bigint(max(l.lateness_ns)) as largest_lateness_ns,
    as_bigint(sum(l.wait_ns)) as wait_ns,
    count(*) filter (l.is_last) as times_last,
    as_bigint(coalesce(sum(l.caused_wait_ns) filter (l.is_last), 0)) as caused_wait_ns
from ranks as r
left join late as l on r.run = l.run and r.rank = l.rank and r.step = l.step
group by r.run, r.rank, r.step
order by r.run, r.rank, r.step
