-- What to add to each rank's times so that all ranks of a run are on one clock, that of the lowest rank.
-- A row is one run and rank. All ranks leave a synchronizing collective (all_reduce, all_gather, reduce_scatter, all_to_all) at
-- nearly the same moment, so the median difference between the ends of their kernels is the offset between two clocks, and the
-- median absolute deviation its spread. Ranks without a common collective are joined through others, along the most certain
-- pairs. No rank leaves before the last has entered, which bounds an offset. `tracelab` never rewrites stored times.
-- verdict: same_clock, where the offset is within three times its spread or 1 us (collective_wait applies none as small);
-- aligned; weak, with a spread over 100 us or fewer than 5 collectives; refused, where no collective connects the rank to the
-- reference, or the offset is outside of its bounds. How collectives are matched: see collective_wait.
-- /// query
-- title = "Clock offsets between ranks"
-- needs = ["kernels"]
-- [params]
-- common = ["run"]
-- rank = { type = "integer", about = "only this rank" }
-- [columns]
-- common = ["run", "rank"]
-- reference_rank = "The rank whose clock counts: the lowest that communicates."
-- offset_ns = "Added to this rank's clock it gives the reference rank's; NULL where nothing connects them."
-- spread_ns = "Median absolute deviation of the differences between ends, the largest on the path to the reference."
-- pairs = "Collectives that the offset rests on, the fewest on the path."
-- low_ns = "The least offset at which no rank leaves a collective before the last has entered."
-- high_ns = "The largest such offset."
-- violations = "Matched collectives in which, with the offsets applied, this rank starts after another has ended."
-- verdict = "same_clock, aligned, weak or refused."
-- ///
with executions as not materialized (
    select run, source, rank, pid, device, stream, name, start_ns, end_ns, dur_ns, correlation
    from kernels
    where matches(run, $run)
),
communication as materialized (
    from collective_kernels('executions')
),
matched as materialized (
    from match_ranks('communication')
),
offsets as materialized (
    from rank_offsets('matched')
),
ends as (
    select m.run, m.number, min(m.end_ns + o.offset_ns) as first_end_ns
    from matched as m
    join offsets as o on m.run = o.run and m.rank = o.rank
    where m.state = 'matched' and synchronizes(m.collective)
    group by m.run, m.number
),
violations as (
    select m.run, m.rank, count(*) as violations
    from matched as m
    join offsets as o on m.run = o.run and m.rank = o.rank
    join ends as e on m.run = e.run and m.number = e.number
    where m.start_ns + o.offset_ns > e.first_end_ns
    group by m.run, m.rank
)
select
    o.run, o.rank,
    o.reference_rank::bigint as reference_rank,
    o.offset_ns, o.spread_ns, o.pairs, o.low_ns, o.high_ns,
    case when o.offset_ns is not null then coalesce(v.violations, 0) end as violations,
    o.verdict
from offsets as o
left join violations as v on o.run = v.run and o.rank = v.rank
where matches(o.rank, $rank)
order by o.run, o.rank
