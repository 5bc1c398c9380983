-- GPU activity. `exported` (run, source, ranks, from_ns, to_ns) lists the part of the store to export.
-- A row of each view is an event: the identity of its track (run, rank, place, pid, tid, device, context, stream, track), its
-- time on the source's clock, and `category`, `name`, `flow`, `members` (the JSON members of its arguments).
-- Arguments have the names that PyTorch's profiler writes, so that other tools, and tracelab, can read them again.

create or replace temp view exported_launches as  -- the outermost call that launched something, and the number of its arrow
with _calls as (
    select a.run, a.source, a.pid, a.correlation, max({'before': -a.start_ns, 'end_ns': a.end_ns, 'tid': a.tid}) as outer_call
    from api_calls as a
    join exported as e using (run, source)
    where a.correlation is not null and has_valid_interval(a.start_ns, a.end_ns) and shown(a.start_ns, a.end_ns, e.from_ns, e.to_ns)
        and (e.ranks is null or list_contains(e.ranks, a.rank))
    group by a.run, a.source, a.pid, a.correlation
),
_work as (
    select g.run, g.source, g.pid, g.correlation
    from gpu_activity as g
    join exported as e using (run, source)
    where g.correlation is not null and shown(g.start_ns, g.end_ns, e.from_ns, e.to_ns)
        and (e.ranks is null or list_contains(e.ranks, g.rank))
    group by g.run, g.source, g.pid, g.correlation
)
select
    c.run, c.source, c.pid, c.correlation,
    -c.outer_call.before as start_ns,
    c.outer_call.end_ns as end_ns,
    c.outer_call.tid as tid,
    format('0x{:x}', row_number() over (order by c.run, c.source, c.correlation, c.pid)) as flow  -- the same each time
from _calls as c
join _work as w
    on c.run = w.run and c.source = w.source and c.pid is not distinct from w.pid and c.correlation = w.correlation;

-- gpu_members: as in PyTorch's profiler, -1 means no device and no stream; without it a reader would take the track's.
create or replace temp macro gpu_members(device, context, stream, correlation, graph, graph_node) as
    concat_ws(
        ',',
        arg('device', coalesce(device, -1)), arg('context', context), arg('stream', coalesce(stream, -1)),
        arg('correlation', correlation),
        arg('graph id', graph), arg('graph node id', graph_node)
    );

create or replace temp macro collective_members(c) as
    concat_ws(
        ',',
        arg_text('Collective name', coalesce(c.raw_name, c.collective)),
        arg('In msg nelems', c.in_elements), arg('Out msg nelems', c.out_elements), arg_text('dtype', c.dtype),
        arg('Group size', c.group_size), arg_text('Process Group Name', c.group_name),
        arg_text('Process Group Description', c.group_description),
        arg_text('Process Group Ranks', c.group_ranks::varchar),
        arg('Global rank start', c.group_start), arg('Global rank stride', c.group_stride),
        arg_text('Comms Id', c.comms_id), arg_text('NCCL communicator ID', c.comm_id), arg('Seq', c.seq),
        arg('Root Rank', c.root),
        case
            when coalesce(c.src_rank, c.dst_rank) is not null
                then concat_ws(',', arg('Src Rank', c.src_rank), arg('Dst Rank', c.dst_rank))
            when contains(lower(c.raw_name), 'send') then arg('Dst Rank', c.peer)
            else arg('Src Rank', c.peer)
        end
    );

create or replace temp view exported_kernels as
with _noted as (
    select run, source, pid, device, stream, start_ns, correlation, any_value(c) as collective
    from collectives as c
    where origin = 'kernel'
    group by run, source, pid, device, stream, start_ns, correlation
),
_classes as materialized (
    from classify('kernels')
)
select
    k.run, k.source, k.rank, 'gpu' as place, k.pid, null::bigint as tid, k.device, k.context, k.stream,
    null::varchar as track, k.start_ns, k.dur_ns, k.end_ns, 'kernel' as category, k.name, k.correlation,
    concat_ws(
        ',',
        gpu_members(k.device, k.context, k.stream, k.correlation, k.graph, k.graph_node),
        arg('External id', k.external_id),
        '"grid":[' || k.grid_x || ',' || k.grid_y || ',' || k.grid_z || ']',
        '"block":[' || k.block_x || ',' || k.block_y || ',' || k.block_z || ']',
        arg('registers per thread', k.registers),
        arg('static shared memory', k.shared_static_bytes),
        arg('dynamic shared memory', k.shared_dynamic_bytes),
        arg('est. achieved occupancy %', round(100 * k.occupancy_ratio, 9)),
        case  -- a Kineto row has them among its own arguments
            when n.run is not null and not contains(coalesce(k.args, ''), '"Collective name"')
            then collective_members(n.collective)
        end,
        left_over(k.args),
        own(
            concat_ws(
                ',',
                arg_text('class', case when n.run is null then c.class else 'communication' end),
                arg_text('collective', coalesce(n.collective.collective, c.collective)),
                arg('size_bytes', n.collective.size_bytes),
                arg('algbw_gb_per_s', n.collective.size_bytes / nullif(k.dur_ns, 0))
            )
        )
    ) as members
from kernels as k
join _classes as c on k.name is not distinct from c.name
left join _noted as n
    on k.run = n.run and k.source = n.source
    and k.pid is not distinct from n.pid and k.correlation is not distinct from n.correlation
    and k.device is not distinct from n.device and k.stream is not distinct from n.stream
    and k.start_ns is not distinct from n.start_ns;

create or replace temp view exported_memcpys as
select
    run, source, rank, 'gpu' as place, pid, null::bigint as tid, device, context, stream, null::varchar as track,
    start_ns, dur_ns, end_ns, 'gpu_memcpy' as category,
    'Memcpy ' || coalesce(direction, 'unknown') || coalesce(
        ' (' || case when coalesce(src_memory, dst_memory) is not null then coalesce(src_memory, '') || ' -> ' end
        || coalesce(dst_memory, '') || ')', ''
    ) as name,
    correlation,
    concat_ws(
        ',',
        gpu_members(device, context, stream, correlation, graph, graph_node),
        arg('External id', external_id), arg('bytes', size_bytes),
        arg('fromDevice', src_device), arg('toDevice', dst_device),
        left_over(args),
        own(arg('gb_per_s', size_bytes / nullif(dur_ns, 0)))
    ) as members
from memcpys;

create or replace temp view exported_memsets as
select
    run, source, rank, 'gpu' as place, pid, null::bigint as tid, device, context, stream, null::varchar as track,
    start_ns, dur_ns, end_ns, 'gpu_memset' as category, 'Memset' || coalesce(' (' || memory || ')', '') as name, correlation,
    concat_ws(
        ',',
        gpu_members(device, context, stream, correlation, graph, graph_node),
        arg('External id', external_id), arg('bytes', size_bytes), arg('value', value),
        left_over(args),
        own(arg('gb_per_s', size_bytes / nullif(dur_ns, 0)))
    ) as members
from memsets;

create or replace temp view exported_graphs as
select
    run, source, rank, 'gpu' as place, pid, null::bigint as tid, device, context, stream, null::varchar as track,
    start_ns, dur_ns, end_ns, 'gpu_graph' as category, coalesce(name, 'CUDA graph') as name, correlation,
    concat_ws(
        ',',
        gpu_members(device, context, stream, correlation, graph, graph_node), arg('nodes', nodes), left_over(args)
    ) as members
from graph_launches;

create or replace temp view exported_syncs as
select
    run, source, rank, 'sync' as place, pid, null::bigint as tid, device, context, stream, null::varchar as track,
    start_ns, dur_ns, end_ns, 'cuda_sync' as category, coalesce(kind, 'synchronization') as name, null::bigint as correlation,
    concat_ws(
        ',',
        gpu_members(device, context, stream, correlation, graph, graph_node),
        arg_text('cuda_sync_kind', kind), arg('wait_on_stream', waits_for_stream),
        arg('wait_on_cuda_event_id', event_id), arg('wait_on_cuda_event_record_corr_id', waits_for_correlation),
        left_over(args)
    ) as members
from syncs;
