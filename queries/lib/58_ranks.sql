-- The same collective on several ranks, and the offsets between the ranks' clocks.

-- synchronizes(collective): whether no rank can leave a collective of this kind before all have entered it, so that it ends
-- everywhere at nearly the same moment.
create or replace macro synchronizes(collective) as
    collective in ('all_reduce', 'all_gather', 'reduce_scatter', 'all_to_all');

-- may_synchronize(collective): whether a rank can leave a collective of this kind early, though it need not.
create or replace macro may_synchronize(collective) as
    collective in ('broadcast', 'reduce');

-- match_ranks(operations): which rows of collective_kernels() are one collective on all ranks of its group. A row is one run,
-- collective and rank, from the first start to the last end of its kernels; `number` is the collective's place in the run by
-- its first start, `id` the first of its kernels, `src_rank` and `dst_rank` the two sides of a send and its receive.
-- `matched_by` is comms_id (the operation's own id), seq (group and sequence number), or order: the n-th
-- collective of the group on each rank, moved by the shift that makes kinds and sizes agree for at least 95 % of the pairs
-- with the lowest rank; of several such shifts the one whose ends agree best, unless the order as it is does nearly as well
-- (four times the scatter, or 10 us), with as many on both ranks. Sends and receives are matched by order, sender by receiver: each rank counts its own.
-- `state` is matched; partial (not on all ranks of the group); mismatched (kinds, types or sizes differ between ranks); cut
-- (a rank's recording begins or ends inside of it); or refused, where no shift qualifies, two fit alike, or the ends of
-- synchronizing collectives differ by more than a millisecond around their median, or there are none. `reason` is why.
-- Where only some ranks of a run record groups (Kineto and Nsight Systems together), each stream has an order of its own.
create or replace macro match_ranks(operations) as table
with _written as materialized (  -- what names groups: some rows a rank
    select distinct
        run, rank,
        {
            'name': group_name, 'ranks': group_ranks, 'size': group_size, 'start': group_start, 'stride': group_stride,
            'comm_id': comm_id
        } as written
    from query_table(operations)
),
_styles as (  -- what names a group on a rank
    select
        run, rank,
        max(
            case
                when written.ranks is not null or written.name is not null then 2
                when written.comm_id is not null then 1
                else 0
            end
        ) as style
    from _written
    group by run, rank
),
_worlds as (
    select run, count(*) as ranks, min(style) <> max(style) as is_mixed from _styles group by run
),
_names as (  -- names distinguish several groups of the same members
    select run, members, max(names) > 1 as are_several
    from (
        select run, rank, list_sort(written.ranks) as members, count(distinct written.name) as names
        from _written
        where written.ranks is not null
        group by run, rank, members
    )
    group by run, members
),
_groups as materialized (  -- a number for each group as it is written, and for its members
    select
        g.run, g.written,
        dense_rank() over (
            order by g.run, case
                when w.is_mixed then ''
                when g.written.ranks is not null
                    then concat_ws(' ', list_sort(g.written.ranks)::varchar, case when n.are_several then g.written.name end)
                when g.written.stride > 0 and g.written.size > 1
                    then concat_ws(' ', g.written.start, g.written.stride, g.written.size)
                else coalesce(g.written.comm_id, g.written.name, '')
            end
        ) as team,
        case
            when not w.is_mixed then coalesce(g.written.size, len(g.written.ranks), case when w.ranks > 1 then w.ranks end)
            else w.ranks
        end as members,
        w.is_mixed,
        w.is_mixed or coalesce(g.written.ranks::varchar, g.written.comm_id, g.written.name) is null as is_anonymous
    from (select distinct run, written from _written) as g
    join _worlds as w on g.run = w.run
    left join _names as n on g.run = n.run and list_sort(g.written.ranks) = n.members
),
_windows as (
    select
        run, source,
        case when clock = 'session' and window_start_ns is null then 0 else window_start_ns end as from_ns,
        try(window_start_ns + window_dur_ns) as to_ns
    from sources
),
_located as materialized (
    select
        o.id, g.run, g.team, g.members, g.is_anonymous, g.is_mixed,
        o.source, o.rank, o.device, o.stream, o.start_ns, o.end_ns, o.collective, o.comms_id, o.seq, o.root,
        case  -- a kernel's name alone shows no more of these
            when g.is_mixed and o.collective in ('all_to_all', 'send_recv', 'other', 'unknown') then 'send_recv'
            else o.collective
        end as kind,
        case when not g.is_mixed then o.dtype end as dtype,
        case when not g.is_mixed then o.in_elements end as in_elements,
        case when not g.is_mixed then o.out_elements end as out_elements,
        coalesce(o.is_p2p and not g.is_mixed and o.src_rank <> o.dst_rank and o.rank in (o.src_rank, o.dst_rank), false)
            as is_pair,
        case when is_pair then o.src_rank end as src_rank,
        case when is_pair then o.dst_rank end as dst_rank,
        coalesce(o.start_ns <= w.from_ns and o.end_ns >= w.from_ns or o.start_ns <= w.to_ns and o.end_ns >= w.to_ns, false)
            as is_cut
    from query_table(operations) as o
    join hint_small('_groups') as g
        on o.run = g.run and g.written = {
            'name': o.group_name, 'ranks': o.group_ranks, 'size': o.group_size, 'start': o.group_start,
            'stride': o.group_stride, 'comm_id': o.comm_id
        }
    left join _windows as w on o.run = w.run and o.source = w.source
    where has_valid_interval(o.start_ns, o.end_ns)
),
_channels as (  -- the sends from one rank to another have an order of their own: they are a team of two ranks
    select -row_number() over () as channel, team, src_rank, dst_rank
    from (select distinct team, src_rank, dst_rank from _located where is_pair)
),
_valid as materialized (
    select
        v.* exclude (team, members, is_anonymous),
        coalesce(c.channel, v.team) as team,
        case when v.is_pair then 2 else v.members end as members,
        v.is_anonymous and not v.is_pair as is_anonymous
    from _located as v
    left join _channels as c on v.team = c.team and v.src_rank = c.src_rank and v.dst_rank = c.dst_rank
),
_methods as (  -- what nearly all rows of a team have, on each of its ranks
    select
        team,
        case
            when bool_or(is_pair) then 'order'
            when min(id_ratio) >= 0.95 then 'comms_id'
            when min(seq_ratio) >= 0.95 then 'seq'
            else 'order'
        end as method
    from (
        select
            team, rank, bool_or(is_pair) as is_pair,
            -- some writers repeat the id of a communicator: then it is no operation's
            case
                when approx_count_distinct(comms_id) >= greatest(0.5 * approx_count_distinct(seq), count(*) / 16)
                    then count(comms_id) / count(*)
                else 0
            end as id_ratio,
            count(seq) / count(*) as seq_ratio
        from _valid
        where not is_mixed
        group by team, rank
    )
    group by team
),
_ordered as materialized (
    select v.*
    from _valid as v
    left join _methods as m on v.team = m.team
    where coalesce(m.method, 'order') = 'order'
),
_streams as (  -- without groups, each communication stream has an order of its own
    select
        team, rank, device, stream,
        case
            when is_anonymous then dense_rank() over (partition by team, rank order by device, stream) else 1
        end as queue
    from (select distinct team, is_anonymous, rank, device, stream from _ordered)
),
_by_order as materialized (
    select
        v.id, v.team, s.queue, v.rank, v.end_ns, v.kind, v.dtype, v.in_elements, v.out_elements, v.is_pair,
        row_number() over (partition by v.team, s.queue, v.rank order by v.start_ns, v.end_ns, v.id) as place
    from _ordered as v
    join _streams as s
        on v.team = s.team and v.rank = s.rank and v.device is not distinct from s.device
        and v.stream is not distinct from s.stream
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
        b.team, b.queue, b.rank, b.place, b.end_ns, l.first_ns, l.is_reference, l.places, b.is_pair,
        b.is_pair or synchronizes(b.kind) as is_synchronizing,
        hash({'kind': b.kind, 'dtype': b.dtype, 'in': b.in_elements, 'out': b.out_elements}) as signature
    from _by_order as b
    join _lengths as l on b.team = l.team and b.queue = l.queue and b.rank = l.rank
    where b.place <= 1_000 + 32
),
_shifts as (
    select
        r.team, r.queue, o.rank,
        o.place - r.place as shift,
        count(*) as pairs,
        count(*) filter (o.signature = r.signature) as equal_pairs,
        -- counted from the first ends, for doubles hold 53 bits
        mad((o.end_ns - o.first_ns) - (r.end_ns - r.first_ns)) filter (r.is_synchronizing) as spread_ns,
        count(*) filter (r.is_synchronizing) as synchronizing_pairs,
        any_value(least(o.places, r.places, 1_000)) as places,
        any_value(o.places = r.places) as is_same_number,
        bool_or(r.is_pair) as is_pair
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
        coalesce(c.unmoved_ns <= greatest(4 * c.spread_ns, 10_000), false) as stays,
        case when stays then 0 else coalesce(c.shift, 0) end as shift,
        case
            when l.is_reference then null
            when c.shift is null
                then 'no shift of the order makes kinds and sizes agree for 95 % of the collectives, and for five at least'
            when c.spread_ns is null then 'no collective that ends everywhere at once shows whether the order agrees'
            when c.is_pair and c.unmoved_ns is not null then null  -- a send may end long before its receive
            when case when stays then c.unmoved_ns else c.spread_ns end > 1_000_000
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
_placed as materialized (
    select
        v.run, v.team,
        0 as queue,
        case  -- the few without an id are on one rank alone
            when m.method = 'comms_id'
                then coalesce(try_cast(v.comms_id as hugeint), hash(v.comms_id)::hugeint + (1::hugeint << 64), -v.id::hugeint)
            else coalesce(v.seq::hugeint, -v.id::hugeint - (1::hugeint << 64))
        end as place,
        v.rank, m.method, v.id, v.source, v.device, v.stream, v.start_ns, v.end_ns,
        v.collective, v.kind, v.dtype, v.members, v.in_elements, v.out_elements, v.src_rank, v.dst_rank, v.root, v.is_pair,
        v.is_cut
    from _valid as v
    join _methods as m on v.team = m.team
    where m.method <> 'order'
    union all by name
    select
        v.run, v.team, b.queue, (b.place - c.shift)::hugeint as place, v.rank, 'order' as method,
        v.id, v.source, v.device, v.stream, v.start_ns, v.end_ns,
        v.collective, v.kind, v.dtype, v.members, v.in_elements, v.out_elements, v.src_rank, v.dst_rank, v.root, v.is_pair,
        v.is_cut
    from _ordered as v
    join _by_order as b on v.id = b.id
    join _chosen as c on b.team = c.team and b.queue = c.queue and b.rank = c.rank
),
_repeated as materialized (  -- mostly none: then few rows are grouped
    select team, queue, place, rank, count(*) as kernels
    from _placed
    group by team, queue, place, rank
    having count(*) > 1
),
_joined as materialized (  -- several kernels of one collective on a rank are one
    select
        run, team, queue, place, rank, method, id, 1 as kernels, source, device, stream, start_ns, end_ns, collective, kind,
        dtype, members,
        case when is_pair then greatest(in_elements, out_elements) else in_elements end::hugeint as elements,
        src_rank, dst_rank, root, is_cut
    from _placed as p
    anti join _repeated as r on p.team = r.team and p.queue = r.queue and p.place = r.place and p.rank = r.rank
    union all
    select
        p.run, p.team, p.queue, p.place, p.rank,
        any_value(p.method), min(p.id), count(*), min(p.source), min(p.device), min(p.stream),
        min(p.start_ns), max(p.end_ns), min(p.collective), min(p.kind), min(p.dtype), max(p.members),
        case when p.is_pair then sum(greatest(p.in_elements, p.out_elements)) else sum(p.in_elements) end,
        min(p.src_rank), min(p.dst_rank), min(p.root), bool_or(p.is_cut)
    from _placed as p
    join hint_small('_repeated') as r on p.team = r.team and p.queue = r.queue and p.place = r.place and p.rank = r.rank
    group by p.run, p.team, p.queue, p.place, p.rank, p.is_pair
),
_gathered as materialized (
    select
        run, team, queue, place,
        count(*) as ranks,
        max(members) as members,
        min(start_ns) as first_ns,
        any_value(kind) as kind,
        min(hash(kind)) <> max(hash(kind)) or min(hash(dtype)) filter (dtype is not null) <> max(hash(dtype)) filter (dtype is not null) as is_mismatched,
        min(elements) <> max(elements) as has_other_sizes,
        bool_or(is_cut) as is_cut
    from _joined
    group by run, team, queue, place
),
_crowded as (  -- streams without groups: several groups that look like one
    select distinct team, queue from _gathered where ranks > members
),
_whole as (
    select
        g.run, g.team, g.queue, g.place, g.ranks, g.members,
        row_number() over (partition by g.run order by g.first_ns, g.team, g.queue, g.place) as number,
        case
            when f.team is not null or c.team is not null then 'refused'
            when g.is_mismatched then 'mismatched'
            when g.kind in ('all_reduce', 'send_recv') and g.has_other_sizes then 'mismatched'
            when g.ranks < coalesce(g.members, 2) then 'partial'
            when g.is_cut then 'cut'
            else 'matched'
        end as state,
        coalesce(f.reason, case when c.team is not null then 'found on more ranks than the group has' end) as refusal
    from _gathered as g
    left join _refused as f on g.team = f.team and g.queue > 0
    left join _crowded as c on g.team = c.team and g.queue = c.queue
)
select
    w.run, w.number, j.rank, j.id, j.kernels, j.source, j.device, j.stream, j.start_ns, j.end_ns, j.collective, j.team, w.ranks,
    w.members,
    j.method as matched_by,
    w.state,
    case w.state
        when 'refused' then w.refusal
        when 'mismatched' then 'kinds, types or sizes differ between ranks'
        when 'partial'
            then coalesce('on ' || w.ranks || ' of ' || w.members || ' ranks', 'on one rank, of a group of unknown size')
        when 'cut' then 'the recording of a rank begins or ends in it'
    end as reason,
    j.src_rank, j.dst_rank, j.root
from _joined as j
join _whole as w on j.run = w.run and j.team = w.team and j.queue = w.queue and j.place = w.place;

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
    a.is_p2p, a.src_rank, a.dst_rank
from _aligned as a
left join _collectives as c on a.run = c.run and a.number = c.number
left join _durations as d on a.run = d.run and a.number = d.number;

-- clock_shifts(executions): what moves the times of each rank and source of a relation of `kernels` (as collective_kernels()
-- takes it) to the clock of the run's lowest rank, by rank_offsets(). `moves`: they are moved, for the clocks differ by more
-- than what scatters; `agrees`: they are then on that clock, whose kind is `reference_clock` (as sources.clock). The notes of a
-- run folder count on the clock of the host, as Kineto's traces do.
create or replace macro clock_shifts(executions) as table
with _communication as materialized (
    from collective_kernels(executions)
),
_matched as materialized (
    from match_ranks('_communication')
),
_offsets as materialized (
    from rank_offsets('_matched')
),
_noted as (
    select distinct run, source, rank from steps
    union
    select distinct run, source, rank from host_samples
),
_located as (
    select run, source, rank from clock_domains('_matched')
    union
    select n.run, n.source, n.rank
    from _noted as n
    join _offsets as o on n.run = o.run and n.rank = o.rank and not starts_with(o.domain, 'source ')
),
_references as (
    select m.run, m.rank, min(s.clock) as clock
    from (select distinct run, source, rank from _matched) as m
    join sources as s on m.run = s.run and m.source = s.source
    group by m.run, m.rank
)
select
    l.run, l.source, l.rank, o.reference_rank, o.verdict, o.offset_ns, o.drift_ppb, o.offset_time_ns,
    o.verdict <> 'refused' and o.reference_rank = min(o.rank) over (partition by o.run) as agrees,
    agrees and (o.drift_ppb is not null or abs(o.offset_ns) > greatest(3 * o.spread_ns, 1_000)) as moves,
    case when r.clock = 'unix' then r.clock else 'aligned' end as reference_clock
from _located as l
join _offsets as o on l.run = o.run and l.rank = o.rank
left join _references as r on o.run = r.run and o.reference_rank = r.rank;

-- on_one_clock(relation): the rows of a relation (run, source, rank, start_ns, end_ns and any others, which stay) with times on
-- the clock of the run's lowest rank, by the collectives of all kernels. `is_aligned`: the times may be compared with those
-- of other ranks; those of a rank that nothing aligns stay as they are.
create or replace macro on_one_clock(relation) as table
with _executions as not materialized (
    select run, source, rank, pid, device, stream, name, start_ns, end_ns, dur_ns, correlation
    from kernels
    where run in (select run from query_table(relation))
),
_shifts as materialized (
    from clock_shifts('_executions')
)
select
    r.* replace (
        case when s.moves then shift_clock(r.start_ns, s) else r.start_ns end as start_ns,
        case when s.moves then shift_clock(r.start_ns, s) + (r.end_ns - r.start_ns) else r.end_ns end as end_ns
    ),
    coalesce(s.agrees, false) as is_aligned
from query_table(relation) as r
left join _shifts as s on r.run = s.run and r.source = s.source and r.rank = s.rank;
