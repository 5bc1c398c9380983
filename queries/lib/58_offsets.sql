-- The offsets between the clocks of ranks, by the collectives that they share.

-- drifted_ns(drift, elapsed_ns): how far a clock runs away in a time, in whole nanoseconds.
create or replace macro drifted_ns(drift, elapsed_ns) as
    case when coalesce(drift, 0) = 0 then 0 else round(drift * elapsed_ns::double)::bigint end;

-- shift_clock(time_ns, o): a time by the clock of a row `o` of rank_offsets(), moved by its offset and drift.
create or replace macro shift_clock(time_ns, o) as
    time_ns + o.offset_ns + drifted_ns(o.drift_ppb / 1e9, time_ns - o.offset_time_ns);

-- on_reference_clock(time_ns, o): a time by the clock of a row `o` of rank_offsets(), on that of the reference rank. NULL where
-- the offset was refused; the same time where the clocks are the same within the spread.
create or replace macro on_reference_clock(time_ns, o) as
    case
        when o.verdict = 'refused' then null
        when o.drift_ppb is null and abs(o.offset_ns) <= greatest(3 * o.spread_ns, 1_000) then time_ns
        else shift_clock(time_ns, o)
    end;

-- clock_domains(relation): the clock that each source's times are on, as text: Kineto's ranks of a host share the host's clock, while
-- each Nsight Systems report counts from its own start, whose time of day is right to milliseconds. A row is one run, source and rank of
-- the relation.
create or replace macro clock_domains(relation) as table
select distinct
    k.run, k.source, k.rank,
    case
        when s.format = 'nsys' then 'source ' || k.source
        when s.clock = 'unix' and h.host is not null then 'host ' || h.host
        else 'rank ' || k.rank
    end as domain
from (select distinct run, source, rank from query_table(relation)) as k
left join sources as s on k.run = s.run and k.source = s.source
left join (select run, source, min(host) as host from devices group by run, source) as h
    on k.run = h.run and k.source = h.source;

-- entered_pairs(matched): what the rows of match_ranks() show of two ranks' clocks. A row is one collective and pair of ranks,
-- low_rank below high_rank: `offset_ns` is the difference of their ends where the collective synchronizes, and the offset lies
-- from least_ns to most_ns, because no rank ends before the other has started; of a broadcast, a reduction and a send only
-- before the root or the sender has, so that one of the bounds is NULL. `at_ns` is the end on the higher rank.
create or replace macro entered_pairs(matched) as table
with _sides as (
    select
        run, team, number,
        arg_min({'rank': rank, 'start_ns': start_ns, 'end_ns': end_ns}, rank) as low,
        any_value(collective) as kind,
        any_value(src_rank) as src_rank,
        any_value(dst_rank) as dst_rank,
        case when min(root) = max(root) then min(root) end as root
    from query_table(matched)
    where state = 'matched' and ranks > 1
    group by run, team, number
),
_roots as (  -- a reduction ends on its root last, a broadcast starts there
    select m.run, m.number, {'rank': m.rank, 'start_ns': m.start_ns, 'end_ns': m.end_ns} as root_row
    from query_table(matched) as m
    join _sides as s on m.run = s.run and m.number = s.number and m.rank = s.root
    where s.kind in ('broadcast', 'reduce') and m.state = 'matched'
),
_faced as (
    select
        m.run, s.kind, s.src_rank, s.root,
        m.rank, m.start_ns, m.end_ns,
        coalesce(r.root_row, s.low) as other
    from query_table(matched) as m
    join _sides as s on m.run = s.run and m.number = s.number
    left join _roots as r on m.run = r.run and m.number = r.number
    where m.state = 'matched' and (synchronizes(s.kind) or s.src_rank is not null or s.root is not null)
),
_directed as (
    select
        run,
        least(rank, other.rank) as low_rank,
        greatest(rank, other.rank) as high_rank,
        case when rank > other.rank then {'start': other.start_ns, 'end': other.end_ns} else {'start': start_ns, 'end': end_ns} end
            as low,
        case when rank > other.rank then {'start': start_ns, 'end': end_ns} else {'start': other.start_ns, 'end': other.end_ns} end
            as high,
        synchronizes(kind) as is_synchronizing,
        case when kind = 'reduce' then case when rank = root then other.rank else rank end else coalesce(src_rank, root) end
            as first_rank
    from _faced
    where rank <> other.rank
)
select
    run, low_rank, high_rank,
    high."end" as at_ns,
    case when is_synchronizing then low."end" - high."end" end as offset_ns,
    case when is_synchronizing or first_rank = low_rank then low."start" - high."end" end as least_ns,
    case when is_synchronizing or first_rank = high_rank then low."end" - high."start" end as most_ns
from _directed;

-- rank_offsets(matched): what to add to the times of each rank, so that they are on the clock of the run's lowest rank, by
-- the rows of match_ranks(); ranks that nothing connects with it have the lowest among themselves as reference_rank. A time t becomes t + offset_ns + drift_ppb / 1e9 * (t - offset_time_ns): see on_reference_clock().
-- The ends of a synchronizing collective are one moment: their median difference between the lowest rank of a group and each
-- other one is an offset, with the median absolute deviation (MAD) as its spread. Where the differences span more than 10 s,
-- the Theil-Sen slope (the median over pairs at least half the span apart) is the drift, if it moves them by more than three times the spread that remains. Ranks on one clock
-- have no offset, unless their ends differ by more than three times the spread and 1 us. Ranks that only send and receive are
-- in the middle of their bounds. Along the most certain path of such pairs (least sum of 1.4826 MAD / sqrt(pairs)) offsets
-- add up. The bounds of an offset, from `low_ns` to `high_ns`, are those of entered_pairs() on that path. A row is one run
-- and rank.
create or replace macro rank_offsets(matched) as table
with recursive _entered as materialized (
    from entered_pairs(matched)
),
_spans as materialized (
    select
        run, low_rank, high_rank,
        min(at_ns) as first_ns, max(at_ns) as last_ns,
        min(coalesce(offset_ns, least_ns, most_ns)) as base_ns,
        count(offset_ns) as pairs
    from _entered
    group by run, low_rank, high_rank
),
_sampled as (  -- 300 differences give 45,000 slopes
    select
        e.run, e.low_rank, e.high_rank,
        s.last_ns - s.first_ns as span_ns,
        e.at_ns - s.first_ns as at_ns,
        e.offset_ns - s.base_ns as offset_ns
    from _entered as e
    join _spans as s on e.run = s.run and e.low_rank = s.low_rank and e.high_rank = s.high_rank
    where s.last_ns - s.first_ns > 10_000_000_000 and s.pairs >= 5 and e.offset_ns is not null
    qualify row_number() over (partition by e.run, e.low_rank, e.high_rank order by e.at_ns) % greatest(1, (s.pairs + 299) // 300) = 0
),
_slopes as (  -- over half of the span at least: between neighbors, what scatters would be the slope
    select a.run, a.low_rank, a.high_rank, median((b.offset_ns - a.offset_ns) / (b.at_ns - a.at_ns)) as drift
    from _sampled as a
    join _sampled as b on a.run = b.run and a.low_rank = b.low_rank and a.high_rank = b.high_rank
        and b.at_ns - a.at_ns > a.span_ns // 2
    group by a.run, a.low_rank, a.high_rank
),
_tilted as (  -- counted from the first end and the least difference, for doubles hold 53 bits
    select
        e.run, e.low_rank, e.high_rank,
        coalesce(t.drift, 0) as drift,
        (e.at_ns - s.first_ns) - (s.last_ns - s.first_ns) // 2 as at_ns,
        s.last_ns - s.first_ns as span_ns,
        (e.offset_ns - s.base_ns)::double as offset_ns,
        (e.least_ns - s.base_ns)::double as least_ns,
        (e.most_ns - s.base_ns)::double as most_ns
    from _entered as e
    join _spans as s on e.run = s.run and e.low_rank = s.low_rank and e.high_rank = s.high_rank
    left join _slopes as t on e.run = t.run and e.low_rank = t.low_rank and e.high_rank = t.high_rank
),
_significant as (
    select
        run, low_rank, high_rank, drift,
        abs(drift) * any_value(span_ns) > 3 * mad(offset_ns - drift * at_ns) as is_significant
    from _tilted
    where drift <> 0
    group by run, low_rank, high_rank, drift
),
_leveled as (
    select
        t.run, t.low_rank, t.high_rank,
        case when g.is_significant then t.drift else 0 end as drift,
        t.offset_ns - case when g.is_significant then t.drift * t.at_ns else 0 end as offset_ns,
        t.least_ns - case when g.is_significant then t.drift * t.at_ns else 0 end as least_ns,
        t.most_ns - case when g.is_significant then t.drift * t.at_ns else 0 end as most_ns
    from _tilted as t
    left join _significant as g on t.run = g.run and t.low_rank = g.low_rank and t.high_rank = g.high_rank
),
_measured as (
    select
        run, low_rank, high_rank, drift,
        median(offset_ns) as offset_ns,
        mad(offset_ns) as spread_ns,
        count(offset_ns) as pairs,
        max(least_ns) as low_ns, min(most_ns) as high_ns
    from _leveled
    group by run, low_rank, high_rank, drift
),
_pairs as materialized (
    select
        m.run, m.low_rank, m.high_rank, m.drift,
        s.first_ns + (s.last_ns - s.first_ns) // 2 as from_ns,
        s.base_ns + floor(coalesce(m.offset_ns, (m.low_ns + m.high_ns) / 2) + 0.5)::bigint as offset_ns,
        coalesce(m.spread_ns, (m.high_ns - m.low_ns) / 2) as spread_ns,
        m.pairs,
        s.base_ns + ceil(m.low_ns)::bigint as low_ns,
        s.base_ns + floor(m.high_ns)::bigint as high_ns,
        case
            when m.pairs > 0 then 1.4826 * m.spread_ns / sqrt(m.pairs) else (m.high_ns - m.low_ns) / 2
        end as uncertainty_ns
    from _measured as m
    join _spans as s on m.run = s.run and m.low_rank = s.low_rank and m.high_rank = s.high_rank
    where m.offset_ns is not null or m.low_ns <= m.high_ns
),
_domains as materialized (
    from clock_domains(matched)
),
_ranks as materialized (
    select
        run, rank,
        min(domain) as domain,
        count(distinct domain) as domains,
        min(rank) over (partition by run) as lowest_rank
    from _domains
    group by run, rank
),
_doubted as (  -- a clock that its own ranks contradict
    select distinct a.run, a.domain
    from _pairs as p
    join _ranks as a on p.run = a.run and p.low_rank = a.rank
    join _ranks as b on p.run = b.run and p.high_rank = b.rank and a.domain = b.domain
    where p.pairs >= 5 and abs(p.offset_ns) > greatest(3 * p.spread_ns, 1_000)
),
_clocks as materialized (  -- the lowest rank of a clock is its name
    select
        r.run, r.rank,
        case when d.domain is null then min(r.rank) over (partition by r.run, r.domain) else r.rank end as clock
    from _ranks as r
    left join _doubted as d on r.run = d.run and r.domain = d.domain
    where r.domains = 1
),
_known as (
    select
        p.run, a.clock as low_clock, b.clock as high_clock, p.drift, p.from_ns, p.offset_ns, p.spread_ns, p.pairs, p.low_ns, p.high_ns,
        -- a difference outside of its bounds is the last that counts
        p.uncertainty_ns + case when p.offset_ns between p.low_ns and p.high_ns then 0 else 1e18 end as uncertainty_ns
    from _pairs as p
    join _clocks as a on p.run = a.run and p.low_rank = a.rank
    join _clocks as b on p.run = b.run and p.high_rank = b.rank and a.clock <> b.clock
),
_edges as materialized (  -- seen from the other side, a clock drifts the other way
    select
        run, low_clock as near, high_clock as far, drift, from_ns, offset_ns, spread_ns, pairs, low_ns, high_ns, uncertainty_ns
    from _known
    union all
    select
        run, high_clock, low_clock, -drift / (1 + drift), from_ns + offset_ns, -offset_ns, spread_ns, pairs, -high_ns, -low_ns,
        uncertainty_ns
    from _known
),
_components(run, clock, reference) using key (run, clock) as (  -- clocks that nothing connects have references of their own
    select distinct run, clock, clock from _clocks
    union
    select e.run, e.far, min(c.reference)
    from _components as c
    join _edges as e on c.run = e.run and c.clock = e.near
    join recurring._components as k on e.run = k.run and e.far = k.clock
    where c.reference < k.reference
    group by e.run, e.far
),
_paths(run, clock, drift, from_ns, offset_ns, spread_ns, pairs, low_ns, high_ns, uncertainty_ns) using key (run, clock) as (
    select run, clock, 0::double, 0::hugeint, 0::hugeint, 0::double, null::bigint, 0::hugeint, 0::hugeint, 0::double
    from _components
    where clock = reference
    union
    select
        e.run, e.far,
        p.drift + e.drift + p.drift * e.drift,
        e.from_ns::hugeint,
        p.offset_ns + e.offset_ns + drifted_ns(p.drift, e.from_ns + e.offset_ns - p.from_ns),
        greatest(p.spread_ns, e.spread_ns),
        least(p.pairs, e.pairs),
        p.low_ns + e.low_ns + drifted_ns(p.drift, e.from_ns + e.offset_ns - p.from_ns),
        p.high_ns + e.high_ns + drifted_ns(p.drift, e.from_ns + e.offset_ns - p.from_ns),
        p.uncertainty_ns + e.uncertainty_ns
    from _paths as p
    join _edges as e on p.run = e.run and p.clock = e.near
    left join recurring._paths as k on e.run = k.run and e.far = k.clock
    where k.clock is null or p.uncertainty_ns + e.uncertainty_ns < k.uncertainty_ns
    qualify row_number() over (partition by e.run, e.far order by p.uncertainty_ns + e.uncertainty_ns, e.near, abs(e.offset_ns)) = 1
),
_references as (  -- a rank without company is compared with the lowest of the run, in vain
    select c.run, c.rank, c.clock, o.reference, count(*) over (partition by c.run, o.reference) > 1 as has_company
    from _clocks as c
    join _components as o on c.run = o.run and c.clock = o.clock
)
select
    r.run, r.rank,
    case when f.has_company then f.reference else r.lowest_rank end as reference_rank,
    as_bigint(p.offset_ns) as offset_ns,
    round(p.spread_ns)::bigint as spread_ns,
    p.pairs, as_bigint(p.low_ns) as low_ns, as_bigint(p.high_ns) as high_ns,
    case
        when p.clock is null then 'refused'
        when p.clock = f.reference then 'same_clock'
        when p.offset_ns not between p.low_ns and p.high_ns then 'refused'
        when p.pairs < 5 or p.spread_ns > 100_000 then 'weak'
        when p.drift = 0 and abs(p.offset_ns) <= greatest(3 * p.spread_ns, 1_000) then 'same_clock'
        else 'aligned'
    end as verdict,
    case when p.drift <> 0 then p.drift * 1e9 end as drift_ppb,
    case when p.drift <> 0 then as_bigint(p.from_ns) end as offset_time_ns,
    r.domain
from _ranks as r
left join _references as f on r.run = f.run and r.rank = f.rank and (f.has_company or r.rank = r.lowest_rank)
left join _paths as p on f.run = p.run and f.clock = p.clock;
