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
_runs as (
    select distinct run from _communication
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
        d.run, d.source, d.pid, d.device, d.stream, d.start_ns, d.correlation, d.note
    from _described as d
    join hint_small('_runs') as r on d.run = r.run
    where d.origin = 'kernel'
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
_open_runs as (  -- mostly none: then nothing more is read
    select distinct run from _without_note
),
_api as (
    select a.run, a.source, a.pid, a.tid, a.correlation, a.start_ns, a.end_ns
    from api_calls as a
    join hint_small('_open_runs') as r on a.run = r.run
),
_points as (
    select id, run, source, pid, call_tid as tid, call_start_ns as at_ns
    from with_calls('_without_note', '_api')
    where call_start_ns is not null
),
_op_notes as materialized (
    select
        row_number() over () as id,
        d.run, d.source, d.pid, d.tid, d.start_ns, try(d.start_ns + d.dur_ns) as end_ns, d.collective, d.note
    from _described as d
    join hint_small('_open_runs') as r on d.run = r.run
    where d.origin = 'op'
),
_on_ops as (  -- of several kernels of one op none is known to be that collective
    select i.id, o.note, o.collective
    from innermost('_op_notes', '_points') as i
    join _op_notes as o on i.parent = o.id
    qualify count(*) over (partition by i.parent) = 1
),
_found as (
    select c.*, case when n.note_id is not null then n.note else o.note end as note, o.collective as op_collective
    from _communication as c
    left join _noted as k on c.id = k.id
    left join _notes as n on k.note_id = n.note_id
    left join _on_ops as o on c.id = o.id
),
_spacings as (  -- torch writes how the ranks of a group are spaced on ops alone
    select
        run, source,
        {'name': group_name, 'description': group_description, 'size': group_size} as named,
        min(group_start) as group_start, min(group_stride) as group_stride
    from collectives
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
    coalesce(c.note.src_rank, case when c.note.dst_rank is not null then c.rank end) as src_rank,
    coalesce(c.note.dst_rank, case when c.note.src_rank is not null then c.rank end) as dst_rank,
    c.note.root as root,
    c.note.raw_name as raw_name,
    c.note.dtype as dtype,
    c.note.in_elements as in_elements,
    c.note.out_elements as out_elements
from _found as c
left join _spacings as s
    on c.run = s.run and c.source = s.source and c.note.group_ranks is null
    and s.named = {'name': c.note.group_name, 'description': c.note.group_description, 'size': c.note.group_size};
