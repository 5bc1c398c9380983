-- Why a rank comes late to a collective: what it did since it was last together with a rank that waits for it, compared with
-- what that rank did meanwhile.

-- wait_pairs(waits): each wait of wait_times() as a pair of ranks: `rank` waits for last_rank for wait_ns, from `entry_ns` to
-- `last_entry_ns`. `id` is a number of its own. `meeting` is the collective in which the two were last together: the latest
-- earlier one that synchronized both, maybe with others; NULL where the recording has none. Pairs of ranks that are in the
-- same groups have the same meetings: so there are few lists of them, not one for each pair. `counts` is false for sends and
-- receives: the stages of a pipeline wait for each other by design, but one that waits may then come late itself. A receive
-- that begins after its send has ended synchronizes nothing: it is neither a wait nor a meeting. Waits and meetings are those
-- of the recording; `in_scope` is that of the rank that waits.
create or replace macro wait_pairs(waits) as table
with _known as materialized (
    select
        run, number, rank, last_rank, wait_ns, source, device, is_p2p, in_scope,
        start_ns as entry_ns,
        last_start_ns as last_entry_ns
    from query_table(waits)
    where last_rank is not null
),
_collectives as materialized (
    select run, number, list(rank order by rank) as members
    from _known
    group by run, number
    having bool_and(entry_ns + wait_ns = last_entry_ns)
),
_teams as materialized (
    select run, members, row_number() over (order by run, members) as team
    from (select distinct run, members from _collectives)
),
_members as materialized (
    select run, team, unnest(members) as rank from _teams
),
_pairs as (
    select p.run, p.last_rank, p.rank, list(l.team order by l.team) as teams
    from (select distinct run, last_rank, rank from _known where wait_ns > 0) as p
    join _members as l on p.run = l.run and p.last_rank = l.rank
    join _members as m on l.run = m.run and l.team = m.team and p.rank = m.rank
    group by p.run, p.last_rank, p.rank
),
_circles as materialized (
    select *, dense_rank() over (order by run, teams) as circle from _pairs
),
_meetings as (
    select c.circle, c.rank, k.number, k.last_entry_ns as at_ns
    from (select distinct circle, run, rank, unnest(teams) as team from _circles) as c
    join _teams as t on c.run = t.run and c.team = t.team
    join _collectives as m on t.run = m.run and t.members = m.members
    join _known as k on m.run = k.run and m.number = k.number and c.rank = k.rank
),
_waiting as (
    select k.*, c.circle
    from _known as k
    left join _circles as c on k.run = c.run and k.last_rank = c.last_rank and k.rank = c.rank
    where k.wait_ns > 0 and k.rank <> k.last_rank and k.entry_ns + k.wait_ns = k.last_entry_ns
)
select
    row_number() over () as id,
    w.run, w.number, w.rank, w.last_rank, w.source, w.device, w.wait_ns, w.entry_ns, w.last_entry_ns,
    not w.is_p2p as counts,
    w.in_scope,
    m.number as meeting,
    m.at_ns as met_ns
from _waiting as w
asof left join _meetings as m on w.circle = m.circle and w.rank = m.rank and w.entry_ns > m.at_ns;

-- approaches(pairs, waits, lanes): what lies between the last meeting of a pair of wait_pairs() and their entries into the
-- collective, for the last rank with `sign` 1 and for the one that waits with -1: from `begin_ns` to `entry_ns`, by the
-- rank's own clock, on the lane of its kernel; by the same clock the last rank entered at `last_entry_ns`. They begin when the
-- last rank entered the meeting; without one, at the first row of either lane. So the two lengths, each times its sign, add
-- up to the wait (where clocks drift, up to the drift). Lanes have lane, run, source, rank, device and first_ns.
create or replace macro approaches(pairs, waits, lanes) as table
with _last_entries as (  -- one row a collective
    select w.run, w.number, l.lane, w.start_ns as entry_ns, w.last_start_ns as last_entry_ns, l.first_ns
    from query_table(waits) as w
    join hint_small(lanes) as l
        on w.run = l.run and w.source = l.source and w.rank = l.rank and w.device is not distinct from l.device
    where w.rank = w.last_rank
),
_waiters as materialized (  -- apart: joined at once, each lane meets each collective of its run
    select
        p.id, p.run, p.number, p.last_rank, p.meeting, p.met_ns,
        w.lane, p.entry_ns, p.last_entry_ns,
        p.last_entry_ns - w.first_ns as recorded_ns
    from query_table(pairs) as p
    join hint_small(lanes) as w
        on p.run = w.run and p.source = w.source and p.rank = w.rank and p.device is not distinct from w.device
),
_sides as materialized (  -- of each pair the rank that waits, and the last one
    select
        p.id, p.run, p.last_rank, p.meeting, p.met_ns,
        p.lane, p.entry_ns, p.last_entry_ns,
        l.lane as last_lane,
        l.entry_ns as last_rank_entry_ns,
        l.last_entry_ns as last_rank_last_entry_ns,
        greatest(p.recorded_ns, l.last_entry_ns - l.first_ns) as recorded_ns
    from _waiters as p
    join _last_entries as l on p.run = l.run and p.number = l.number
)
select
    id, run, last_rank, -1 as sign, lane, entry_ns, last_entry_ns,
    case when meeting is null then last_entry_ns - recorded_ns else met_ns end as begin_ns
from _sides
union all
select
    s.id, s.run, s.last_rank, 1, s.last_lane, s.last_rank_entry_ns, s.last_rank_last_entry_ns,
    case when s.meeting is null then s.last_rank_last_entry_ns - s.recorded_ns else m.last_start_ns end
from _sides as s
left join query_table(waits) as m on s.run = m.run and s.meeting = m.number and s.last_rank = m.rank;

-- inherited_waits(approaches, cells): the waits of wait_pairs() that delayed their rank: it did not compute when they ended.
-- Of waits that overlap on a lane, the one that ends last counts. `place` grows with time on their lane. Cells are the rows of
-- states(), with all entries and ends of waits among the cuts; those of one cell and layer may be one row.
create or replace macro inherited_waits(approaches, cells) as table
with _instants as (
    select distinct lane, last_entry_ns as at_ns from query_table(approaches) where sign = -1
),
_computing as (
    select e.lane, e.end_ns as at_ns
    from (from query_table(cells) where layer = 0) as e
    join hint_small('_instants') as i on e.lane = i.lane and e.end_ns = i.at_ns
    intersect
    select s.lane, s.start_ns
    from (from query_table(cells) where layer = 0) as s
    join hint_small('_instants') as i on s.lane = i.lane and s.start_ns = i.at_ns
),
_ended as (
    select a.id, a.lane, a.entry_ns, a.last_entry_ns
    from query_table(approaches) as a
    anti join _computing as c on a.lane = c.lane and a.last_entry_ns = c.at_ns
    where a.sign = -1
),
_followed as (  -- one pass, back in time
    select
        *,
        min(entry_ns) over (back rows between unbounded preceding and 1 preceding) as next_entry_ns,
        -row_number() over back as place
    from _ended
    window back as (partition by lane order by last_entry_ns desc, entry_ns desc, id desc)
)
select id, lane, entry_ns, last_entry_ns, last_entry_ns - entry_ns as wait_ns, place
from _followed
where coalesce(next_entry_ns >= last_entry_ns, true);

-- inheritances(approaches, inherited): which inherited waits lie wholly in which approaches of their rank. A row is `id` and
-- sign of an approach, and the id of the pair that waited, `from_id`, with its wait_ns.
create or replace macro inheritances(approaches, inherited) as table
with _holding as (  -- if the first wait that begins in an approach does not end in it, none does
    select a.id, a.sign, a.last_rank, a.run, a.lane, a.entry_ns, f.place as first_place
    from query_table(approaches) as a
    asof join query_table(inherited) as f on a.lane = f.lane and a.begin_ns <= f.entry_ns
    where f.last_entry_ns <= a.entry_ns
),
_reach as (
    select a.id, a.sign, a.last_rank, a.run, a.lane, a.first_place, l.place as last_place
    from _holding as a
    asof join query_table(inherited) as l on a.lane = l.lane and a.entry_ns >= l.last_entry_ns
)
select r.id, r.sign, r.run, r.last_rank, i.id as from_id, i.wait_ns
from (
    select id, sign, run, last_rank, lane, unnest(range(first_place, last_place + 1)) as place from _reach
) as r
join query_table(inherited) as i on r.lane = i.lane and r.place = i.place;

-- delay_weights(pairs, inheritances, most_hops): how often the approaches of each pair count as delay. Each wait that `counts`
-- does once. A wait within an approach is no delay of its own rank but of the one that it waited for: in its place, with the
-- sign of the approach and as often, count the approaches to the collective of that wait, and so on, back to where the ranks
-- were together. A row is one pair and hop, 0 for the wait itself.
-- The times of all approaches, each times its sign and weights and without the waits carried back, add up to all waits.
create or replace macro delay_weights(pairs, inheritances, most_hops) as table
with recursive _waits(hop, id, weight) as (
    select 0, id, 1::hugeint from query_table(pairs) where counts
    union all
    select any_value(w.hop) + 1, i.from_id, sum(w.weight * i.sign)
    from _waits as w
    join query_table(inheritances) as i on w.id = i.id
    where w.hop < most_hops
    group by i.from_id
    having sum(w.weight * i.sign) <> 0
)
select hop, id, weight from _waits;

-- apportion(shares): divide totals among rows in whole numbers. Rows have part, id, total and weight, 0 or more; of each part
-- `share` is total * weight / (sum of weights), rounded down, and one more for the largest remainders (of equal ones the
-- lowest id first), so that the shares add up to the total. 0 where no row has a weight; NULL beyond 128 bits.
create or replace macro apportion(shares) as table
with _weighted as (
    select part, id, total::hugeint as total, weight::hugeint as weight, sum(weight) over (partition by part)::hugeint as weights
    from query_table(shares)
),
_rounded as (
    select
        part, id, total,
        case when weights = 0 then 0 else try(total * weight // weights) end as rounded,
        case when weights = 0 then 0 else try(total * weight % weights) end as remainder,
        weights > 0 as is_divided
    from _weighted
)
select
    part, id,
    rounded + case
        when is_divided and row_number() over (partition by part order by remainder desc, id)
            <= total - sum(rounded) over (partition by part) then 1
        else 0
    end as share
from _rounded;
