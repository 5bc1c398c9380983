-- Communication kernels with what the profiler noted about their collectives.

-- collective_kernels(executions): the communication kernels of a relation of `kernels` (run, source, rank, pid, device,
-- stream, name, start_ns, end_ns, dur_ns, correlation), each with what the profiler noted about its collective: size_bytes,
-- bytes_source, group_name, group_description, group_size, group_ranks, group_start, group_stride, comm_id, comms_id, seq,
-- is_p2p, src_rank, dst_rank, root, raw_name, dtype, in_elements, out_elements. A kernel without a note of its own has that of the
-- op that launched it and no other communication kernel. The rank itself sends what names only a receiver, and receives what
-- names only a sender. `measured_ns` is the duration where it is valid.
create or replace macro collective_kernels(executions) as table
with _executions as (
    select
        run, source, rank, pid, device, stream, name, start_ns, end_ns, dur_ns, correlation,
        {'pid': pid, 'stream': stream, 'correlation': correlation} as part
    from query_table(executions)
),
_communication as materialized (
    select
        row_number() over () as id,
        run, source, rank, device, collective, start_ns, end_ns,
        part.pid as pid,
        part.stream as stream,
        part.correlation as correlation,
        case when has_valid_interval(start_ns, end_ns) then dur_ns end as measured_ns
    from with_class('_executions')
    where class = 'communication'
),
_described as not materialized (
    select
        origin, run, source, pid, tid, device, stream, start_ns, dur_ns, correlation, collective,
        {
            'size_bytes': size_bytes, 'bytes_source': bytes_source, 'group_name': group_name,
            'group_description': group_description, 'group_size': group_size, 'group_ranks': group_ranks,
            'group_start': group_start, 'group_stride': group_stride, 'comm_id': comm_id, 'comms_id': comms_id, 'seq': seq,
            'is_p2p': is_p2p, 'src_rank': src_rank, 'dst_rank': dst_rank, 'root': root, 'raw_name': raw_name, 'dtype': dtype,
            'in_elements': in_elements, 'out_elements': out_elements
        } as note
    from collectives
),
_notes as materialized (  -- of several notes on one kernel the first counts
    select
        row_number() over () as note_id,
        run, source, pid, device, stream, start_ns, correlation, note
    from _described
    where origin = 'kernel' and run in (select run from _communication)
),
_noted as materialized (
    select c.id, min(n.note_id) as note_id
    from _communication as c
    join _notes as n
        on c.run = n.run and c.source = n.source
        and c.pid is not distinct from n.pid and c.correlation is not distinct from n.correlation
        and c.device is not distinct from n.device and c.stream is not distinct from n.stream
        and c.start_ns is not distinct from n.start_ns
    group by c.id
),
_without_note as materialized (
    select c.id, c.run, c.source, c.pid, c.correlation
    from _communication as c
    anti join _noted as n on c.id = n.id
),
_api as (
    select run, source, pid, tid, correlation, start_ns, end_ns
    from api_calls
    where run in (select run from _without_note)
),
_points as (
    select id, run, source, pid, call_tid as tid, call_start_ns as at_ns
    from with_calls('_without_note', '_api')
    where call_start_ns is not null
),
_op_notes as materialized (
    select
        row_number() over () as id,
        run, source, pid, tid, start_ns, try(start_ns + dur_ns) as end_ns, collective, note
    from _described
    where origin = 'op' and run in (select run from _without_note)
),
_on_ops as (  -- of several kernels of one op none is known to be that collective
    select i.id, o.note, o.collective
    from innermost('_op_notes', '_points') as i
    join _op_notes as o on i.parent = o.id
    qualify count(*) over (partition by i.parent) = 1
),
_found as (
    select k.id, n.note, null as collective from _noted as k join _notes as n on k.note_id = n.note_id
    union all
    select id, note, collective from _on_ops
),
_spacings as (  -- torch writes how the ranks of a group are spaced on ops alone
    select
        run, source,
        {'name': group_name, 'description': group_description, 'size': group_size} as named,
        min(group_start) as group_start, min(group_stride) as group_stride
    from collectives
    where group_start is not null and group_stride is not null and run in (select run from _communication)
    group by run, source, named
    having min(group_start) = max(group_start) and min(group_stride) = max(group_stride)
)
select
    c.id, c.run, c.source, c.rank, c.device, c.stream, c.start_ns, c.end_ns, c.measured_ns,
    case
        when c.collective in ('send_recv', 'unknown') then coalesce(n.collective, c.collective)  -- SendRecv carries others
        else c.collective
    end as collective,
    n.note.size_bytes as size_bytes,
    n.note.bytes_source as bytes_source,
    n.note.group_name as group_name,
    n.note.group_description as group_description,
    n.note.group_size as group_size,
    n.note.group_ranks as group_ranks,
    coalesce(n.note.group_start, s.group_start) as group_start,
    coalesce(n.note.group_stride, s.group_stride) as group_stride,
    n.note.comm_id as comm_id,
    n.note.comms_id as comms_id,
    n.note.seq as seq,
    n.note.is_p2p as is_p2p,
    coalesce(n.note.src_rank, case when n.note.dst_rank is not null then c.rank end) as src_rank,
    coalesce(n.note.dst_rank, case when n.note.src_rank is not null then c.rank end) as dst_rank,
    n.note.root as root,
    n.note.raw_name as raw_name,
    n.note.dtype as dtype,
    n.note.in_elements as in_elements,
    n.note.out_elements as out_elements
from _communication as c
left join _found as n on c.id = n.id
left join _spacings as s
    on c.run = s.run and c.source = s.source and n.note.group_ranks is null
    and s.named = {'name': n.note.group_name, 'description': n.note.group_description, 'size': n.note.group_size};
