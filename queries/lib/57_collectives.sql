-- Communication kernels with what the profiler noted about their collectives, and communication on the CPU.

-- is_cpu_communication(name): whether a range or op of this name communicates between processes on the CPU: by gloo, MPI or
-- UCC.
create or replace macro is_cpu_communication(name) as regexp_matches(name, '^(gloo|mpi|ucc):|^MPI_[A-Z]');

-- cpu_collective(name): the kind of collective of such a name, in lower case.
create or replace macro cpu_collective(name) as lower(regexp_replace(name, '^(gloo|mpi|ucc):|^MPI_', ''));

-- cpu_collectives(ranges): the collectives of ranges on the CPU (run, source, rank, pid, name, start_ns, end_ns, dur_ns, args, in_scope), as
-- rows of collective_kernels(), without a device; ids are below 0. MPI's names are those of gloo. The ranges of a rank are on
-- several threads, in the order in which it entered them. Kineto writes the shapes of the tensors.
create or replace macro cpu_collectives(ranges) as table
select
    -row_number() over () as id, run, source, rank, null::integer as device, start_ns, end_ns,
    case when has_valid_interval(start_ns, end_ns) then dur_ns end as measured_ns,
    regexp_replace(
        regexp_replace(cpu_collective(name), '^i?all_?(reduce|gather|to)_?(all)?(v|_coalesced)?$', 'all_\1_\2'), '_$', ''
    ) as collective,
    try_cast(args -> 'Input type' ->> 0 as varchar) as dtype,
    list_sum(list_transform(try_cast(args -> 'Input Dims' as bigint[][]), lambda shape: list_product(shape)))::bigint as in_elements,
    in_scope
from query_table(ranges);

-- is_collective_op(name): whether an op of this name is a call of torch.distributed, which starts a collective or waits for it.
create or replace macro is_collective_op(name) as name like 'c10d::%';

-- is_computing_op(name): whether an op of this name computes: it is neither of c10d nor of the autograd engine.
create or replace macro is_computing_op(name) as
    name like '%::%' and not is_collective_op(name) and name not like 'autograd::engine%';

-- collective_kernels(executions): the communication kernels of a relation of `kernels` (run, source, rank, pid, device,
-- stream, name, start_ns, end_ns, dur_ns, correlation, in_scope), each with what the profiler noted about its collective: size_bytes,
-- bytes_source, group_name, group_description, group_size, group_ranks, group_start, group_stride, comm_id, comms_id, seq,
-- is_p2p, src_rank, dst_rank, root, raw_name, dtype, in_elements, out_elements. A kernel without a note of its own has that of the
-- op that launched it and no other communication kernel. The rank itself sends what names only a receiver, and receives what
-- names only a sender. `measured_ns` is the duration where it is valid; named_collective is the kind by with_class(), by the name alone.
-- NCCL's own ranges, in NVTX, name a communicator and count its ranks from 0: the n-th rank of the run that uses it is its n-th
-- rank, where the run has all of them. What calls between ncclGroupStart and ncclGroupEnd communicate is launched when the
-- group ends; of several calls in a group the kernel has what they have in common.
create or replace macro collective_kernels(executions) as table
with _executions as (
    select
        run, source, rank, pid, device, stream, name, start_ns, end_ns, dur_ns, correlation, in_scope as part
    from query_table(executions)
),
_runs as (
    select distinct run from query_table(executions)
),
_described as not materialized (
    select
        origin, run, source, pid, tid, device, stream, start_ns, dur_ns, correlation, collective,
        {
            'size_bytes': size_bytes, 'bytes_source': bytes_source, 'group_name': group_name,
            'group_description': group_description, 'group_size': group_size, 'group_ranks': group_ranks,
            'group_start': group_start, 'group_stride': group_stride, 'comm_id': comm_id, 'comms_id': comms_id, 'seq': seq,
            'is_p2p': is_p2p, 'src_rank': src_rank, 'dst_rank': dst_rank, 'root': root, 'raw_name': raw_name, 'dtype': dtype,
            'in_elements': in_elements, 'out_elements': out_elements, 'peer': peer
        } as note
    from unscoped_collectives
),
_unnumbered as materialized (  -- numbering takes one core, and so would all that it is part of
    select
        run, source, rank, pid, device, stream, collective, start_ns, end_ns, correlation,
        part as in_scope,
        case when has_valid_interval(start_ns, end_ns) then dur_ns end as measured_ns,
        notes
    from with_noted_class('_executions', executions)
    where class = 'communication'
),
_communication as materialized (
    select row_number() over () as id, * from _unnumbered
),
_without_note as materialized (
    select id, run, source, pid, correlation
    from _communication
    where notes is null
),
_open_runs as (  -- mostly none: then nothing more is read
    select distinct run from _without_note
),
_api as (
    select a.run, a.source, a.pid, a.tid, a.correlation, a.start_ns, a.end_ns
    from unscoped_api_calls as a
    join hint_small('_open_runs') as r on a.run = r.run
),
_points as (
    select id, run, source, pid, call_tid as tid, call_start_ns as at_ns
    from with_calls('_without_note', '_api')
    where call_start_ns is not null
),
_op_calls as materialized (
    select
        row_number() over () as id,
        d.run, d.source, d.pid, d.tid, d.start_ns, try(d.start_ns + d.dur_ns) as end_ns, d.collective, d.note
    from _described as d
    join hint_small('_open_runs') as r on d.run = r.run
    where d.origin = 'op'
),
_group_marks as (
    select a.run, a.source, a.pid, a.tid, a.name = 'ncclGroupStart' as opens, a.start_ns, a.end_ns
    from unscoped_annotations as a
    join hint_small('_open_runs') as r on a.run = r.run
    where a.name in ('ncclGroupStart', 'ncclGroupEnd') and has_valid_interval(a.start_ns, a.end_ns)
),
_group_sums as (
    select *, sum(case when opens then 1 else -1 end) over thread as depth
    from _group_marks
    window thread as (
        partition by run, source, pid, tid order by start_ns, opens desc rows between unbounded preceding and current row
    )
),
_group_depths as (  -- a recording may begin in a group: its end closes none
    select * replace (depth - least(0, min(depth) over thread) as depth)
    from _group_sums
    window thread as (
        partition by run, source, pid, tid order by start_ns, opens desc rows between unbounded preceding and current row
    )
),
_groups as materialized (  -- groups may nest: the outermost one launches
    select row_number() over () as group_id, *
    from (
        select
            run, source, coalesce(pid, -1) as pid, coalesce(tid, -1) as tid, opens, start_ns,
            lead(end_ns) over (partition by run, source, pid, tid order by start_ns, opens desc) as end_ns
        from _group_depths
        where depth = case when opens then 1 else 0 end
    )
    where opens and end_ns is not null
),
_grouped as materialized (
    select c.id, g.group_id, g.end_ns
    from _op_calls as c
    asof join _groups as g
        on c.run = g.run and c.source = g.source and coalesce(c.pid, -1) = g.pid and coalesce(c.tid, -1) = g.tid
        and c.start_ns >= g.start_ns
    where c.end_ns <= g.end_ns and c.note.bytes_source = 'nvtx'
),
_op_notes as materialized (
    select c.* from _op_calls as c anti join _grouped as g on c.id = g.id
    union all by name
    select
        min(c.id) as id, c.run, c.source, c.pid, c.tid, min(c.start_ns) as start_ns, g.end_ns,
        case when min(c.collective) = max(c.collective) then min(c.collective) else 'other' end as collective,
        case
            when count(*) = 1 then any_value(c.note)
            else struct_update(
                any_value(c.note),
                size_bytes := as_bigint(sum(c.note.size_bytes)),
                comm_id := case when min(c.note.comm_id) = max(c.note.comm_id) then min(c.note.comm_id) end,
                group_size := case when min(c.note.comm_id) = max(c.note.comm_id) then min(c.note.group_size) end,
                is_p2p := bool_and(c.note.is_p2p),
                root := case when min(c.note.root) = max(c.note.root) then min(c.note.root) end,
                peer := case
                    when min((c.note.raw_name, c.note.peer)) = max((c.note.raw_name, c.note.peer)) then min(c.note.peer)
                end,
                raw_name := case when min(c.note.raw_name) = max(c.note.raw_name) then min(c.note.raw_name) end
            )
        end as note
    from _op_calls as c
    join _grouped as g on c.id = g.id
    group by c.run, c.source, c.pid, c.tid, g.group_id, g.end_ns
),
_members as materialized (
    select run, comm_id, list(rank order by rank) as ranks
    from (
        select distinct c.run, c.comm_id, c.rank
        from unscoped_collectives as c
        join hint_small('_open_runs') as r on c.run = r.run
        where c.bytes_source = 'nvtx' and c.comm_id is not null
    )
    group by run, comm_id
),
_on_ops as (  -- of several kernels of one op none is known to be that collective
    select i.id, o.note, o.collective
    from innermost('_op_notes', '_points') as i
    join _op_notes as o on i.parent = o.id
    qualify count(*) over (partition by i.parent) = 1
),
_kernel_notes as not materialized (
    select d.* from _described as d join hint_small('_runs') as r on d.run = r.run where d.origin = 'kernel'
),
_repeated as materialized (  -- mostly none
    select id, run, source, pid, device, stream, start_ns, correlation from _communication where notes > 1
),
_first_notes as materialized (
    select id, arg_min(note, place) as note
    from (
        select r.id, n.note, row_number() over () as place
        from _kernel_notes as n
        join hint_small('_repeated') as r on is_same_kernel(n, r)
    )
    group by id
),
_found as (  -- apart, for a case over notes would copy each of their fields
    select c.* exclude (notes), n.note, null as op_collective
    from _communication as c
    join _kernel_notes as n on is_same_kernel(n, c)
    where c.notes = 1
    union all
    select c.* exclude (notes), n.note, null
    from _communication as c
    join hint_small('_first_notes') as n on c.id = n.id
    union all
    select c.* exclude (notes), o.note, o.collective
    from _communication as c
    left join _on_ops as o on c.id = o.id
    where c.notes is null
),
_spacings as (  -- torch writes how the ranks of a group are spaced on ops alone
    select
        run, source,
        {'name': group_name, 'description': group_description, 'size': group_size} as named,
        min(group_start) as group_start, min(group_stride) as group_stride
    from unscoped_collectives
    where group_start is not null and group_stride is not null
    group by run, source, named
    having min(group_start) = max(group_start) and min(group_stride) = max(group_stride)
)
select
    c.id, c.run, c.source, c.rank, c.device, c.stream, c.start_ns, c.end_ns, c.measured_ns,
    case
        when c.collective in ('send_recv', 'unknown') then coalesce(c.op_collective, c.collective)  -- SendRecv carries others
        else c.collective
    end as collective,
    c.collective as named_collective,
    c.note.size_bytes as size_bytes,
    c.note.bytes_source as bytes_source,
    c.note.group_name as group_name,
    c.note.group_description as group_description,
    c.note.group_size as group_size,
    c.note.group_ranks as group_ranks,
    coalesce(c.note.group_start, s.group_start) as group_start,
    coalesce(c.note.group_stride, s.group_stride) as group_stride,
    c.note.comm_id as comm_id,
    c.note.comms_id as comms_id,
    c.note.seq as seq,
    c.note.is_p2p as is_p2p,
    case c.note.raw_name
        when 'ncclSend' then case when m.ranks[c.note.peer + 1] is not null then c.rank end
        when 'ncclRecv' then m.ranks[c.note.peer + 1]
        else coalesce(c.note.src_rank, case when c.note.dst_rank is not null then c.rank end)
    end as src_rank,
    case c.note.raw_name
        when 'ncclSend' then m.ranks[c.note.peer + 1]
        when 'ncclRecv' then case when m.ranks[c.note.peer + 1] is not null then c.rank end
        else coalesce(c.note.dst_rank, case when c.note.src_rank is not null then c.rank end)
    end as dst_rank,
    case when c.note.bytes_source = 'nvtx' then m.ranks[c.note.root + 1] else c.note.root end as root,
    c.note.raw_name as raw_name,
    c.note.dtype as dtype,
    c.note.in_elements as in_elements,
    c.note.out_elements as out_elements,
    c.in_scope
from _found as c
left join _spacings as s
    on c.run = s.run and c.source = s.source and c.note.group_ranks is null
    and s.named = {'name': c.note.group_name, 'description': c.note.group_description, 'size': c.note.group_size}
left join _members as m
    on c.run = m.run and c.note.bytes_source = 'nvtx' and c.note.comm_id = m.comm_id
    and len(m.ranks) = coalesce(c.note.group_size, len(m.ranks));
