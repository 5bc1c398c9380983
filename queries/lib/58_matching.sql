-- The same collective on several ranks.

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
-- A collective is in a scope on each rank by its first kernel; numbers, groups and states are those of the recording.
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
        o.source, o.rank, o.device, o.stream, o.start_ns, o.end_ns, o.collective, o.comms_id, o.seq, o.root, o.in_scope,
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
        v.is_cut, v.in_scope
    from _valid as v
    join _methods as m on v.team = m.team
    where m.method <> 'order'
    union all by name
    select
        v.run, v.team, b.queue, (b.place - c.shift)::hugeint as place, v.rank, 'order' as method,
        v.id, v.source, v.device, v.stream, v.start_ns, v.end_ns,
        v.collective, v.kind, v.dtype, v.members, v.in_elements, v.out_elements, v.src_rank, v.dst_rank, v.root, v.is_pair,
        v.is_cut, v.in_scope
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
        src_rank, dst_rank, root, is_cut, in_scope
    from _placed as p
    anti join _repeated as r on p.team = r.team and p.queue = r.queue and p.place = r.place and p.rank = r.rank
    union all
    select
        p.run, p.team, p.queue, p.place, p.rank,
        any_value(p.method), min(p.id), count(*), min(p.source), min(p.device), min(p.stream),
        min(p.start_ns), max(p.end_ns), min(p.collective), min(p.kind), min(p.dtype), max(p.members),
        case when p.is_pair then sum(greatest(p.in_elements, p.out_elements)) else sum(p.in_elements) end,
        min(p.src_rank), min(p.dst_rank), min(p.root), bool_or(p.is_cut),
        arg_min(p.in_scope, (p.start_ns, p.id))
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
    j.src_rank, j.dst_rank, j.root, j.in_scope
from _joined as j
join _whole as w on j.run = w.run and j.team = w.team and j.queue = w.queue and j.place = w.place;
