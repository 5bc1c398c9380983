-- The same collective on several ranks, and the offsets between the ranks' clocks.

-- synchronizes(collective): whether no rank can leave a collective of this kind before all have entered it, so that it ends
-- everywhere at nearly the same moment.
create or replace macro synchronizes(collective) as
    collective in ('all_reduce', 'all_gather', 'reduce_scatter', 'all_to_all');

-- match_ranks(operations): which rows of collective_kernels() are one collective on all ranks of its group. A row is one run,
-- collective and rank, from the first start to the last end of its kernels; `number` is the collective's place in the run by
-- its first start, `id` the first of its kernels.
-- `matched_by` is seq (members of the group and sequence number), or order: the n-th collective of the group on each rank,
-- moved by the shift that makes kinds and sizes agree for at least 95 % of the pairs with the lowest rank; of several such
-- shifts the one whose ends agree best, unless the order as it is does nearly as well, with as many on both ranks. `state` is matched; partial (not on all ranks of the group); mismatched (kinds or
-- types differ between ranks); or refused, where no shift qualifies, two fit alike, or the ends of synchronizing collectives
-- differ by more than a millisecond around their median, or there are none: then `reason` is why, for the whole group.
create or replace macro match_ranks(operations) as table
with _worlds as (
    select run, count(distinct rank) as ranks from query_table(operations) group by run
),
_groups as materialized (  -- a number for each group as it is written, and for its members
    select
        g.run, g.group_name, g.group_ranks, g.group_size,
        dense_rank() over (order by g.run, coalesce(list_sort(g.group_ranks)::varchar, g.group_name, '')) as team,
        coalesce(g.group_size, case when w.ranks > 1 then w.ranks end) as members,
        g.group_name is null and g.group_ranks is null as is_anonymous
    from (select distinct run, group_name, group_ranks, group_size from query_table(operations)) as g
    join _worlds as w on g.run = w.run
),
_valid as materialized (
    select
        o.id, g.team, g.members, g.is_anonymous,
        o.source, o.rank, o.device, o.stream, o.start_ns, o.end_ns, o.collective, o.seq, o.dtype, o.in_elements, o.out_elements
    from query_table(operations) as o
    join _groups as g
        on o.run = g.run and o.group_name is not distinct from g.group_name
        and o.group_ranks is not distinct from g.group_ranks and o.group_size is not distinct from g.group_size
    where has_valid_interval(o.start_ns, o.end_ns)
),
_streams as (  -- without groups, each communication stream has an order of its own
    select
        team, rank, device, stream,
        case
            when is_anonymous then dense_rank() over (partition by team, rank order by device, stream) else 1
        end as queue
    from (select distinct team, is_anonymous, rank, device, stream from _valid where seq is null)
),
_by_order as materialized (
    select
        v.id, v.team, s.queue, v.rank, v.start_ns, v.end_ns, v.collective, v.dtype, v.in_elements, v.out_elements,
        row_number() over (partition by v.team, s.queue, v.rank order by v.start_ns, v.end_ns, v.id) as place
    from _valid as v
    join _streams as s
        on v.team = s.team and v.rank = s.rank and v.device is not distinct from s.device
        and v.stream is not distinct from s.stream
    where v.seq is null
),
_lengths as (
    select
        team, queue, rank,
        count(*) as places,
        min(end_ns) as first_ns,
        rank = min(rank) over (partition by team, queue) as is_reference
    from _by_order
    group by team, queue, rank
),
_first as materialized (  -- the first collectives decide on the shift
    select
        b.team, b.queue, b.rank, b.place, b.end_ns, l.first_ns, l.is_reference, l.places, synchronizes(b.collective) as is_synchronizing,
        {'collective': b.collective, 'dtype': b.dtype, 'in': b.in_elements, 'out': b.out_elements} as signature
    from _by_order as b
    join _lengths as l on b.team = l.team and b.queue = l.queue and b.rank = l.rank
    where b.place <= 1_000 + 32
),
_shifts as (
    select
        r.team, r.queue, o.rank,
        o.place - r.place as shift,
        count(*) as pairs,
        count(*) filter (o.signature is not distinct from r.signature) as equal_pairs,
        -- counted from the first ends, for doubles hold 53 bits
        mad((o.end_ns - o.first_ns) - (r.end_ns - r.first_ns)) filter (r.is_synchronizing) as spread_ns,
        count(*) filter (r.is_synchronizing) as synchronizing_pairs,
        any_value(least(o.places, r.places, 1_000)) as places,
        any_value(o.places = r.places) as is_same_number
    from _first as r
    join _first as o
        on r.team = o.team and r.queue = o.queue and not o.is_reference and o.place between r.place - 32 and r.place + 32
    where r.is_reference and r.place <= 1_000
    group by r.team, r.queue, o.rank, shift
),
_candidates as (  -- where both ranks have as many, the order as it is counts; any other shift takes five pairs to show
    select
        *,
        row_number() over choices as choice,
        lead(spread_ns) over choices as next_spread_ns,
        max(spread_ns) filter (is_same_number and shift = 0) over (partition by team, queue, rank) as unmoved_ns,
        count(*) over (partition by team, queue, rank) as candidates
    from _shifts
    where equal_pairs >= 0.95 * pairs and pairs >= greatest(1, places / 2)
        and (is_same_number and shift = 0 or synchronizing_pairs >= 5)
    window choices as (partition by team, queue, rank order by spread_ns nulls last, abs(shift), shift)
),
_chosen as (
    select
        l.team, l.queue, l.rank,
        case when 4 * c.spread_ns > c.unmoved_ns then 0 else coalesce(c.shift, 0) end as shift,
        case
            when l.is_reference then null
            when c.shift is null
                then 'no shift of the order makes kinds and sizes agree for 95 % of the collectives, and for five at least'
            when c.spread_ns is null then 'no collective that ends everywhere at once shows whether the order agrees'
            when case when 4 * c.spread_ns > c.unmoved_ns then c.unmoved_ns else c.spread_ns end > 1_000_000
                then 'the ends of synchronizing collectives differ by more than 1 ms around their median'
            when c.candidates > 1 and c.unmoved_ns is null and not coalesce(4 * c.spread_ns <= c.next_spread_ns, false)
                then 'several shifts of the order fit alike'
        end as reason
    from _lengths as l
    left join _candidates as c on l.team = c.team and l.queue = c.queue and l.rank = c.rank and c.choice = 1
),
_refused as (  -- one rank that cannot be matched makes the order of its group unknown
    select team, max(reason) as reason from _chosen group by team having max(reason) is not null
),
_keyed as (
    select id, 0 as queue, seq as place from _valid where seq is not null
    union all
    select b.id, b.queue, b.place - c.shift
    from _by_order as b
    join _chosen as c on b.team = c.team and b.queue = c.queue and b.rank = c.rank
),
_joined as materialized (  -- several kernels of one collective on a rank are one
    select
        v.team, k.queue, k.place, v.rank,
        min(v.id) as id, count(*) as kernels,
        min(v.source) as source, min(v.device) as device, min(v.stream) as stream,
        min(v.start_ns) as start_ns, max(v.end_ns) as end_ns,
        min(v.collective) as collective, min(v.dtype) as dtype, max(v.members) as members
    from _valid as v
    join _keyed as k on v.id = k.id
    group by v.team, k.queue, k.place, v.rank
),
_whole as (
    select
        j.team, j.queue, j.place,
        row_number() over (partition by any_value(g.run) order by min(j.start_ns), j.team, j.queue, j.place) as number,
        any_value(g.run) as run,
        count(*) as ranks,
        max(j.members) as members,
        case
            when j.queue > 0 and any_value(f.team) is not null then 'refused'
            when min(j.collective) <> max(j.collective) or min(j.dtype) <> max(j.dtype) then 'mismatched'
            when count(*) < coalesce(max(j.members), 2) then 'partial'
            else 'matched'
        end as state,
        case when j.queue > 0 then any_value(f.reason) end as reason
    from _joined as j
    join (select team, any_value(run) as run from _groups group by team) as g on j.team = g.team
    left join _refused as f on j.team = f.team
    group by j.team, j.queue, j.place
)
select
    w.run, w.number, j.rank, j.id, j.kernels, j.source, j.device, j.stream, j.start_ns, j.end_ns, j.collective, j.team, w.ranks,
    w.members,
    case when w.queue = 0 then 'seq' else 'order' end as matched_by,
    w.state, w.reason
from _joined as j
join _whole as w on j.team = w.team and j.queue = w.queue and j.place = w.place;

-- rank_offsets(matched): what to add to the times of each rank, so that they are on the clock of the run's lowest rank, by
-- the rows of match_ranks(). The ends of a synchronizing collective are one moment: their median difference between the
-- lowest rank of a group and each other one is an offset, with the median absolute deviation (MAD) as its spread; along the
-- most certain path of such pairs (least sum of 1.4826 MAD / sqrt(pairs)) offsets add up. No rank leaves such a collective
-- before the last has entered: that bounds an offset, from `low_ns` to `high_ns`. A row is one run and rank.
create or replace macro rank_offsets(matched) as table
with recursive _moments as materialized (  -- up to 2,000 collectives of each group, spread evenly
    select run, team, number, rank, start_ns, end_ns
    from (
        select
            run, team, number, rank, start_ns, end_ns,
            dense_rank() over (partition by run, team order by number) as place,
            count(*) filter (is_first) over (partition by run, team) as places
        from (
            select *, row_number() over (partition by run, team, number order by rank) = 1 as is_first
            from query_table(matched)
            where state = 'matched' and ranks > 1 and synchronizes(collective)
        )
    )
    where (place - 1) % greatest(1, (places + 1999) // 2000) = 0
),
_differences as materialized (
    select
        m.run, l.rank as low_rank, m.rank as high_rank, m.end_ns,
        l.end_ns - m.end_ns as offset_ns,
        l.start_ns - m.end_ns as least_ns,
        l.end_ns - m.start_ns as most_ns
    from _moments as m
    join (select *, min(rank) over (partition by run, team, number) as lowest from _moments) as l
        on m.run = l.run and m.team = l.team and m.number = l.number and l.rank = l.lowest and m.rank <> l.rank
),
_pairs as (
    select
        run, low_rank, high_rank,
        least_offset_ns + floor(median(offset_ns - least_offset_ns) + 0.5)::bigint as offset_ns,  -- doubles hold 53 bits
        mad(offset_ns - least_offset_ns) as spread_ns,
        count(*) as pairs,
        max(least_ns) as low_ns, min(most_ns) as high_ns,
        1.4826 * mad(offset_ns - least_offset_ns) / sqrt(count(*)) as uncertainty_ns
    from (select *, min(offset_ns) over (partition by run, low_rank, high_rank) as least_offset_ns from _differences)
    group by run, low_rank, high_rank, least_offset_ns
),
_edges as materialized (
    select run, low_rank as near, high_rank as far, offset_ns, spread_ns, pairs, low_ns, high_ns, uncertainty_ns from _pairs
    union all
    select run, high_rank, low_rank, -offset_ns, spread_ns, pairs, -high_ns, -low_ns, uncertainty_ns from _pairs
),
_ranks as materialized (
    select run, rank, min(rank) over (partition by run) as reference_rank
    from (select distinct run, rank from query_table(matched))
),
_paths(run, rank, offset_ns, spread_ns, pairs, low_ns, high_ns, uncertainty_ns) using key (run, rank) as (
    select run, rank, 0::hugeint, 0::double, null::bigint, 0::hugeint, 0::hugeint, 0::double
    from _ranks
    where rank = reference_rank
    union
    select
        e.run, e.far, p.offset_ns + e.offset_ns, greatest(p.spread_ns, e.spread_ns), least(p.pairs, e.pairs),
        p.low_ns + e.low_ns, p.high_ns + e.high_ns, p.uncertainty_ns + e.uncertainty_ns
    from _paths as p
    join _edges as e on p.run = e.run and p.rank = e.near
    left join recurring._paths as k on e.run = k.run and e.far = k.rank
    where k.rank is null or p.uncertainty_ns + e.uncertainty_ns < k.uncertainty_ns
    qualify row_number() over (partition by e.run, e.far order by p.uncertainty_ns + e.uncertainty_ns, e.near) = 1
)
select
    r.run, r.rank, r.reference_rank,
    as_bigint(p.offset_ns) as offset_ns,
    round(p.spread_ns)::bigint as spread_ns,
    p.pairs, as_bigint(p.low_ns) as low_ns, as_bigint(p.high_ns) as high_ns,
    case
        when p.rank is null then 'refused'
        when r.rank = r.reference_rank then 'same_clock'
        when p.offset_ns not between p.low_ns and p.high_ns then 'refused'
        when p.pairs < 5 or p.spread_ns > 100_000 then 'weak'
        when abs(p.offset_ns) <= greatest(3 * p.spread_ns, 1_000) then 'same_clock'
        else 'aligned'
    end as verdict
from _ranks as r
left join _paths as p on r.run = p.run and r.rank = p.rank;

-- wait_times(matched, offsets): the rows of match_ranks() with how long each rank waited for the last one, by the offsets of
-- rank_offsets(): they apply unless they are within three times their spread or 1 us. `last_start_ns` is the start on the last rank, by the
-- rank's own clock, `next_start_ns` that of the last but one. NULL unless the collective is matched and synchronizes, and
-- the offset of each of its ranks is known. duration_wait_ns needs no clocks: the duration less the shortest of any rank.
create or replace macro wait_times(matched, offsets) as table
with _aligned as (
    select
        m.*,
        case
            when o.verdict = 'refused' then null
            when abs(o.offset_ns) <= greatest(3 * o.spread_ns, 1_000) then 0
            else o.offset_ns
        end as applied_ns,
        m.start_ns + applied_ns as aligned_start_ns
    from query_table(matched) as m
    left join query_table(offsets) as o on m.run = o.run and m.rank = o.rank
),
_collectives as (
    select
        run, number,
        max(aligned_start_ns) as last_ns,
        max(aligned_start_ns, 2)[2] as next_ns,
        arg_max(rank, (aligned_start_ns, -rank)) as last_rank
    from _aligned
    where state = 'matched' and ranks > 1
    group by run, number
    having count(*) = count(aligned_start_ns) and bool_and(synchronizes(collective))
),
_durations as (
    select run, number, min(end_ns - start_ns) as least_ns
    from query_table(matched)
    where state = 'matched' and ranks > 1
    group by run, number
)
select
    a.run, a.number, a.rank, a.source, a.device, a.stream, a.start_ns, a.end_ns, a.collective, a.ranks, a.members, a.matched_by,
    a.state, a.reason, c.last_rank,
    c.last_ns - a.applied_ns as last_start_ns,
    c.next_ns - a.applied_ns as next_start_ns,
    c.last_ns - a.aligned_start_ns as wait_ns,
    a.end_ns - c.last_ns + a.applied_ns as transfer_ns,
    a.end_ns - a.start_ns - d.least_ns as duration_wait_ns
from _aligned as a
left join _collectives as c on a.run = c.run and a.number = c.number
left join _durations as d on a.run = d.run and a.number = d.number;
