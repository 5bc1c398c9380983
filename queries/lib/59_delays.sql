-- Why a rank comes late to a collective: what it did since it was last together with a rank that waits for it, compared with
-- what that rank did meanwhile.

-- wait_pairs(waits): each wait of wait_times() as a pair of ranks: `rank` waits for last_rank for wait_ns, from `entry_ns` to
-- `last_entry_ns`. `id` is a number of its own. `meeting` is the collective in which the two were last together: the latest
-- earlier one that synchronized both, maybe with others; NULL where the recording has none. Pairs of ranks that are in the
-- same groups have the same meetings: so there are few lists of them, not one for each pair. `counts` is false for sends and
-- receives: the stages of a pipeline wait for each other by design, but one that waits may then come late itself. A receive
-- that begins after its send has ended synchronizes nothing: it is neither a wait nor a meeting.
create or replace macro wait_pairs(waits) as table
with _known as materialized (
    select
        run, number, rank, last_rank, wait_ns, source, device, is_p2p,
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

-- lane_states(rows, cuts): states() in one pass over all events, which takes one core.
-- The pieces of a layer that remain follow each other, so one running sum holds the codes of all layers, 12 bits each. The
-- events run backward in time, because an idle stretch takes its cause from the row that ends it: the latest start so far.
create or replace macro lane_states(rows, cuts) as table
with _ordered as (
    select
        lane, layer, code, start_ns, end_ns, launched_ns,
        ((4 * lane + layer)::hugeint << 64) as base,
        max(base + end_ns) over (rows between unbounded preceding and current row) as latest
    from (
        select lane, layer, code, start_ns, end_ns, launched_ns
        from query_table(rows)
        order by 4 * lane + layer, start_ns, end_ns desc, launched_ns nulls last, code
    )
),
_covered as (
    select
        lane, layer, code, start_ns, end_ns, launched_ns,
        greatest(lag(latest) over () - base, -4611686018427387904)::bigint as covered_ns
    from _ordered
),
_pieces as materialized (
    select
        lane,
        greatest(start_ns, coalesce(covered_ns, start_ns)) as start_ns,
        end_ns,
        code::bigint << (12 * layer) as step,
        case when coalesce(covered_ns <= start_ns, true) then coalesce(launched_ns + 4611686018427387905, 0) end as launched
    from _covered
    where coalesce(end_ns > covered_ns or end_ns = start_ns and start_ns = covered_ns, true)
),
_events as (
    select lane, start_ns as at_ns, -step as step, launched, null::bigint as cell from _pieces
    union all
    select lane, end_ns, step, null, null from _pieces
    union all
    select lane, at_ns, 0, null, cell from hint_small(cuts)
),
_sums as (
    select
        lane, at_ns,
        lead(lane) over () as next_lane,
        lead(at_ns) over () as next_ns,
        (sum(step) over (rows between unbounded preceding and current row))::bigint as codes,
        last_value(cell ignore nulls) over (rows between unbounded preceding and current row) as cell,
        last_value(launched ignore nulls) over (rows between unbounded preceding and current row) as launched
    from (select lane, at_ns, step, launched, cell from _events order by lane, at_ns desc, launched desc nulls first)
)
select
    lane, cell,
    next_ns as start_ns,
    at_ns as end_ns,
    case
        when codes & 4095 > 0 then 0
        when (codes >> 12) & 4095 > 0 then 1
        when codes > 0 then 2
        else 3
    end as layer,
    case layer when 0 then codes & 4095 when 1 then (codes >> 12) & 4095 when 2 then codes >> 24 end::integer as code,
    case when layer = 3 then nullif(launched, 0) - 4611686018427387905 end as launched_ns
from _sums
where lane = next_lane and next_ns < at_ns;

-- states(rows, cuts): what each lane does between some instants. Rows have lane, layer (0: compute, 1: communication, 2:
-- copies), code (a number from 1 to 4095), start_ns, end_ns and launched_ns, the end of the call that launched them (NULL:
-- not recorded). Cuts have lane, at_ns and cell, a number from 1 that grows with the lane and falls with the time; a cell is
-- the time from the cut before. A row is one stretch of time of a lane and cell in which nothing changes: `layer` is the
-- lowest of a row that runs, 3 where none does, `code` that row's. Of several rows of one layer the one that began first
-- counts until it ends, then the next one. An idle stretch has the launched_ns of the row that ends it: of several that
-- begin together the earliest.
-- Two passes, each over half of the lanes, use two cores.
create or replace macro states(rows, cuts) as table
with _rows as materialized (
    select lane, layer, code, start_ns, end_ns, launched_ns from query_table(rows)
),
_even_rows as (from _rows where lane % 2 = 0),
_odd_rows as (from _rows where lane % 2 = 1),
_even_cuts as (from query_table(cuts) where lane % 2 = 0),
_odd_cuts as (from query_table(cuts) where lane % 2 = 1)
from lane_states('_even_rows', '_even_cuts')
union all
from lane_states('_odd_rows', '_odd_cuts');

-- inherited_waits(approaches, cells): the waits of wait_pairs() that delayed their rank: it did not compute when they ended.
-- Of waits that overlap on a lane, the one that ends last counts. `place` grows with time on their lane. Cells are the rows of
-- states(), with all entries and ends of waits among the cuts; those of one cell and layer may be one row.
create or replace macro inherited_waits(approaches, cells) as table
with _computing as (
    select e.lane, e.end_ns as at_ns
    from (from query_table(cells) where layer = 0) as e
    join (from query_table(cells) where layer = 0) as s on e.lane = s.lane and e.end_ns = s.start_ns
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

-- latenesses(waits): how much later than the others each rank enters each collective of wait_times() whose waits are known:
-- its entry less the median of the entries of the other ranks (the mean of the middle two, rounded down), below 0 where it
-- is early. A row is one run, collective and rank.
create or replace macro latenesses(waits) as table
with _collectives as (
    select run, number, list_sort(list(wait_ns)) as sorted_ns
    from query_table(waits)
    where last_rank is not null
    group by run, number
),
_placed as (  -- `own` is the rank's place among the waits: without it, all behind move up
    select w.run, w.number, w.rank, w.wait_ns, c.sorted_ns, list_position(c.sorted_ns, w.wait_ns) as own, len(c.sorted_ns) - 1 as others
    from query_table(waits) as w
    join _collectives as c on w.run = c.run and w.number = c.number
    where w.last_rank is not null
),
_medians as (
    select
        *,
        sorted_ns[(others + 1) // 2 + ((others + 1) // 2 >= own)::integer] as lower_ns,
        sorted_ns[(others + 2) // 2 + ((others + 2) // 2 >= own)::integer] as upper_ns
    from _placed
    where others > 0
)
select run, number, rank, floor((lower_ns::hugeint + upper_ns) / 2)::bigint - wait_ns as lateness_ns
from _medians;

-- root_waits(matched, offsets): waits of matched broadcasts and reductions whose root is known. In a broadcast each rank waits
-- for a root that enters later; in a reduction the root waits for the last of the others. A row is one run, collective and
-- rank; those that need not wait have 0.
create or replace macro root_waits(matched, offsets) as table
with _aligned as materialized (
    select m.run, m.number, m.rank, m.root, m.collective, on_reference_clock(m.start_ns, o) as aligned_ns
    from query_table(matched) as m
    join query_table(offsets) as o on m.run = o.run and m.rank = o.rank
    where m.state = 'matched' and m.root is not null and m.collective in ('broadcast', 'reduce')
),
_entries as (
    select
        run, number,
        min(aligned_ns) filter (rank = root) as root_ns,
        max(aligned_ns) filter (rank <> root) as others_ns
    from _aligned
    group by run, number
)
select
    a.run, a.number, a.rank,
    greatest(
        0,
        case
            when (a.collective = 'broadcast') = (a.rank = a.root) then 0
            when a.collective = 'broadcast' then e.root_ns - a.aligned_ns
            else e.others_ns - a.aligned_ns
        end
    ) as root_wait_ns
from _aligned as a
join _entries as e on a.run = e.run and a.number = e.number;

-- entered_steps(waits, steps): the step of steps_of() in which each collective of wait_times() whose waits are known is
-- entered: the one that contains the start of its kernel on the last rank, by that rank's marks. A row is one run and
-- collective; those before the first or after the last step are left out.
create or replace macro entered_steps(waits, steps) as table
select w.run, w.number, s.step
from (from query_table(waits) where rank = last_rank) as w
asof join (from query_table(steps) where step is not null) as s
    on w.run = s.run and w.source = s.source and w.rank = s.rank and w.start_ns >= s.start_ns
where w.start_ns < s.end_ns;

-- layer_rows(executions, lanes): the kernels, copies, memsets and graphs of some lanes (lane, run, source, rank, device) as
-- layer_times() takes them: layer 0 is compute, 1 communication, 2 copies and memsets, 3 time in which rows outside of the scope
-- ran. `executions` are rows of gpu_activity with their kind as `part`.
create or replace macro layer_rows(executions, lanes) as table
select
    l.lane,
    case when w.part in ('memcpy', 'memset') then 2 when w.class = 'communication' then 1 else 0 end::tinyint as layer,
    w.start_ns, w.end_ns
from with_class(executions) as w
join hint_small(lanes) as l
    on w.run = l.run and w.source = l.source and w.rank = l.rank and w.device is not distinct from l.device
where has_valid_interval(w.start_ns, w.end_ns)
union all
select lane, 3, start_ns, end_ns from out_of_scope_stretches(lanes, 'out_of_scope_activity');

-- layer_bit(layer): the lowest of the 31 bits that count the rows of a layer of layer_stretches(); that of layer 3, whose rows do not
-- overlap, is the last one of layer 1.
create or replace macro layer_bit(layer) as case when layer = 3 then 61 else 31 * layer end;

-- layer_stretches(rows, cuts): the stretches of time of layer_times() in one pass over all events, which takes one core. One
-- running sum holds the depths of all layers, as in running_depths(). The events run backward in time, as the cells do.
create or replace macro layer_stretches(rows, cuts) as table
with _events as (
    select lane, start_ns as at_ns, -(1::bigint << layer_bit(layer)) as step, null::bigint as cell from query_table(rows)
    union all
    select lane, end_ns, 1::bigint << layer_bit(layer), null from query_table(rows)
    union all
    select lane, at_ns, 0, cell from hint_small(cuts)
),
_sums as (
    select
        lane, at_ns,
        lead(lane) over () as next_lane,
        lead(at_ns) over () as next_ns,
        sum(step) over (rows between unbounded preceding and current row) as depths,
        last_value(cell ignore nulls) over (rows between unbounded preceding and current row) as cell
    from (select lane, at_ns, step, cell from _events order by lane, at_ns desc)
)
select
    lane, cell,
    at_ns - next_ns as dur_ns,
    case
        when depths & 2147483647 > 0 then 0
        when (depths >> 31) & 1073741823 > 0 then 1
        when depths >> 62 > 0 then 2
        when depths > 0 then 3
        else 4
    end as layer
from _sums
where lane = next_lane and next_ns < at_ns;

-- layer_times(rows, cuts): of each lane and cell of states() the time in each layer: compute_ns, exposed_comm_ns,
-- exposed_memory_ns, out_of_scope_ns and idle_ns, which add up to the cell. Rows have lane, layer, start_ns and end_ns. Which row of a layer
-- runs does not matter here: so a depth suffices, and one sort.
create or replace macro layer_times(rows, cuts) as table
with _rows as materialized (
    select lane, layer, start_ns, end_ns from query_table(rows)
),
_even_rows as (from _rows where lane % 2 = 0),
_odd_rows as (from _rows where lane % 2 = 1),
_even_cuts as (from query_table(cuts) where lane % 2 = 0),
_odd_cuts as (from query_table(cuts) where lane % 2 = 1),
_stretches as (
    from layer_stretches('_even_rows', '_even_cuts')
    union all
    from layer_stretches('_odd_rows', '_odd_cuts')
)
select
    lane, cell,
    coalesce(sum(dur_ns) filter (layer = 0), 0) as compute_ns,
    coalesce(sum(dur_ns) filter (layer = 1), 0) as exposed_comm_ns,
    coalesce(sum(dur_ns) filter (layer = 2), 0) as exposed_memory_ns,
    coalesce(sum(dur_ns) filter (layer = 3), 0) as out_of_scope_ns,
    coalesce(sum(dur_ns) filter (layer = 4), 0) as idle_ns
from _stretches
group by lane, cell;
