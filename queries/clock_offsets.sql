-- What to add to each rank's times so that all ranks of a run are on one clock, that of the lowest rank.
-- A row is one run and rank. All ranks leave a synchronizing collective (all_reduce, all_gather, reduce_scatter, all_to_all) at
-- nearly the same moment, so the median difference between the ends of their kernels is the offset between two clocks, and the
-- median absolute deviation its spread. Over more than 10 s the Theil-Sen slope is the drift, where it exceeds what scatters.
-- Ranks of one host have one clock, unless their collectives contradict; each report of Nsight Systems has its own. Ranks
-- without a common collective are joined through others, along the most certain pairs. No rank leaves before the last has
-- entered, and no receive ends before its send starts, which bounds an offset. `tracelab` never rewrites stored times: see
-- --aligned. Clocks are a fact of the whole recording: a scope does not change the answer.
-- verdict: same_clock, where the offset is within three times its spread or 1 us (then none applies); aligned; weak, with a
-- spread over 100 us or fewer than 5 collectives; refused, where no collective connects the rank to the reference, its traces
-- are on several clocks, or the offset is outside of its bounds. How collectives are matched: see collective_wait.
-- /// query
-- title = "Clock offsets between ranks"
-- needs = ["kernels", "annotations"]
-- subject = "health"
-- show = ["run", "rank", "reference_rank", "offset_ns", "spread_ns", "pairs", "verdict", "reason"]
-- [params]
-- common = ["run"]
-- rank = { type = "integer", about = "only this rank" }
-- [columns]
-- common = ["run", "rank"]
-- reference_rank = "The rank whose clock counts: the lowest that communicates."
-- offset_ns = "Added to this rank's clock it gives the reference rank's; NULL where nothing connects them."
-- spread_ns = "Median absolute deviation of the differences between ends, the largest on the path to the reference."
-- pairs = "Collectives that the offset rests on, the fewest on the path; NULL where the host's clock is shared."
-- low_ns = "The least offset at which no rank leaves a collective before the last has entered."
-- high_ns = "The largest such offset."
-- violations = "Matched collectives and receives in which, with the offsets applied, this rank starts after another has ended."
-- verdict = "same_clock, aligned, weak or refused."
-- drift_ppb = "How much slower this rank's clock runs, in nanoseconds per second; NULL where it does not drift measurably."
-- offset_time_ns = "Time of this rank at which offset_ns holds; it changes by drift_ppb from there."
-- domain = "The clock: of a host, of a source (a report of Nsight Systems) or of the rank alone."
-- reason = "Why the verdict is weak or refused."
-- ///
with entered as (
    select
        m.run, m.number, m.rank, m.rank = m.dst_rank as receives,
        shift_clock(m.start_ns, o) as start_ns,
        shift_clock(m.end_ns, o) as end_ns
    from matched_collectives as m
    join rank_clocks as o on m.run = o.run and m.rank = o.rank
    where m.state = 'matched' and (synchronizes(m.collective) or m.dst_rank is not null)
),
ends as (  -- a receiver may start after its sender has ended
    select run, number, min(end_ns) filter (receives is null or receives) as first_end_ns
    from entered
    group by run, number
),
violations as (
    select m.run, m.rank, count(*) as violations
    from entered as m
    join ends as e on m.run = e.run and m.number = e.number
    where m.start_ns > e.first_end_ns
    group by m.run, m.rank
),
apart as (
    select run, rank, mode(reason) filter (state <> 'matched') as reason
    from matched_collectives
    group by run, rank
),
domains as (
    select run, rank, count(distinct domain) as domains from clock_domains('matched_collectives') group by run, rank
)
select
    o.run, o.rank,
    o.reference_rank::bigint as reference_rank,
    o.offset_ns, o.spread_ns, o.pairs, o.low_ns, o.high_ns,
    case when o.offset_ns is not null then coalesce(v.violations, 0) end as violations,
    o.verdict, o.drift_ppb, o.offset_time_ns, o.domain,
    case
        when o.verdict = 'refused' and d.domains > 1 then 'its traces are on several clocks'
        when o.verdict = 'refused' and o.offset_ns is null
            then concat_ws('; ', 'no collective connects it with rank ' || o.reference_rank, a.reason)
        when o.verdict = 'refused' then 'the offset is outside of its bounds'
        when o.verdict = 'weak' and o.pairs is null then 'sends and receives alone bound it'
        when o.verdict = 'weak' and o.pairs < 5 then 'it rests on fewer than 5 collectives'
        when o.verdict = 'weak' then 'its spread is over 100 us'
    end as reason
from rank_clocks as o
left join apart as a on o.run = a.run and o.rank = a.rank
left join domains as d on o.run = d.run and o.rank = d.rank
left join violations as v on o.run = v.run and o.rank = v.rank
where matches(o.run, $run) and matches(o.rank, $rank)
order by o.run, o.rank
