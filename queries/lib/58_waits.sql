-- How long ranks wait for each other in collectives, how late each enters, and in which step.

-- unknown_wait_reason(reason, is_p2p, collective): why no wait is known of a row of wait_times(), from its columns.
create or replace macro unknown_wait_reason(reason, is_p2p, collective) as
    case
        when reason is not null then reason
        when is_p2p or not synchronizes(collective) then 'a rank can leave collectives of this kind, such as broadcasts and sends, before all have entered'
        else 'the clocks of its ranks are not known'
    end;

-- wait_times(matched, offsets): the rows of match_ranks() with how long each rank waited for the last one, by the offsets of
-- rank_offsets(): they apply unless they are within three times their spread or 1 us. `last_start_ns` is the start on the last
-- rank, by the rank's own clock, `next_start_ns` that of the last but one. NULL unless the collective is matched and
-- synchronizes, or is a send and its receive, and the offset of each of its ranks is known. A broadcast or reduction, which a
-- rank may leave early, synchronizes where none did: each ends after the last one has entered. The sender of a small message
-- need not wait for the receiver: `is_p2p` waits end with the rank's own kernel. duration_wait_ns needs no clocks: the
-- duration less the shortest of any rank.
create or replace macro wait_times(matched, offsets) as table
with _aligned as (
    select
        m.*,
        m.src_rank is not null as is_p2p,
        on_reference_clock(m.start_ns, o) as aligned_start_ns,
        m.start_ns - aligned_start_ns as back_ns,
        o.reference_rank
    from query_table(matched) as m
    left join hint_small(offsets) as o on m.run = o.run and m.rank = o.rank
),
_collectives as (
    select
        run, number,
        max(aligned_start_ns) as last_ns,
        max(aligned_start_ns, 2)[2] as next_ns,
        arg_max(rank, (aligned_start_ns, -rank)) as last_rank
    from _aligned
    where state = 'matched' and ranks > 1 and (is_p2p or synchronizes(collective) or may_synchronize(collective))
    group by run, number
    having count(*) = count(aligned_start_ns) and count(*) = any_value(ranks) and min(reference_rank) = max(reference_rank)
        and (not bool_or(may_synchronize(collective)) or min(aligned_start_ns + end_ns - start_ns) > last_ns)
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
    c.last_ns + a.back_ns as last_start_ns,
    c.next_ns + a.back_ns as next_start_ns,
    case when a.is_p2p then least(c.last_ns + a.back_ns, a.end_ns) else c.last_ns + a.back_ns end - a.start_ns as wait_ns,
    a.end_ns - case when a.is_p2p then least(c.last_ns + a.back_ns, a.end_ns) else c.last_ns + a.back_ns end as transfer_ns,
    a.end_ns - a.start_ns - d.least_ns as duration_wait_ns,
    a.is_p2p, a.src_rank, a.dst_rank, a.in_scope
from _aligned as a
left join _collectives as c on a.run = c.run and a.number = c.number
left join _durations as d on a.run = d.run and a.number = d.number;

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
