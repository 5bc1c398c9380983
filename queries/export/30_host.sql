-- What ran on the host, ranges on host and devices, and what a run folder notes; rows as in 20_gpu.sql.

create or replace temp view exported_calls as
select
    run, source, rank, 'cpu' as place, pid, tid, null::integer as device, null::bigint as context, null::bigint as stream,
    null::varchar as track, start_ns, dur_ns, end_ns,
    case api when 'runtime' then 'cuda_runtime' when 'driver' then 'cuda_driver' else coalesce(api, 'api') end as category,
    name, correlation,
    concat_ws(
        ',',
        arg('correlation', correlation), arg('External id', external_id), arg('return value', return_value), left_over(args)
    ) as members
from api_calls;

create or replace temp view exported_ops as
select
    run, source, rank, 'cpu' as place, pid, tid, null::integer as device, null::bigint as context, null::bigint as stream,
    null::varchar as track, start_ns, dur_ns, end_ns, 'cpu_op' as category, name, null::bigint as correlation,
    concat_ws(
        ',',
        arg('External id', external_id), arg('Sequence number', sequence_number), arg('Fwd thread id', forward_tid),
        arg_json('Input Dims', input_shapes), arg_json('Input type', input_types), left_over(args)
    ) as members
from ops;

create or replace temp view exported_frames as
select
    run, source, rank, 'cpu' as place, pid, tid, null::integer as device, null::bigint as context, null::bigint as stream,
    null::varchar as track, start_ns, dur_ns, end_ns, 'python_function' as category, name, null::bigint as correlation,
    concat_ws(
        ',',
        arg('Python id', frame), arg('Python parent id', parent_frame), arg('Python module id', module), left_over(args)
    ) as members
from python_frames;

create or replace temp view exported_ranges as
select
    run, source, rank, case when scope = 'gpu' then 'range' else 'cpu' end as place, pid, tid, device, null::bigint as context,
    stream, null::varchar as track, start_ns, dur_ns, start_ns + dur_ns as end_ns,
    case when scope = 'gpu' then 'gpu_user_annotation' else 'user_annotation' end as category,
    name, null::bigint as correlation,
    concat_ws(
        ',',
        case when scope = 'gpu' then gpu_members(device, null, stream, null, null, null) end,
        arg_text('domain', domain),
        arg_text('category', nullif(nullif(category, 'user_annotation'), 'gpu_user_annotation')),
        arg_json('payload', payload), left_over(args)
    ) as members
from annotations;

create or replace temp view exported_steps as
select
    run, source, rank, 'steps' as place, pid, null::bigint as tid, null::integer as device, null::bigint as context,
    null::bigint as stream, null::varchar as track, start_ns, dur_ns, start_ns + dur_ns as end_ns, 'step' as category,
    concat_ws(' ', coalesce(phase, 'step'), epoch || coalesce('/' || step, '')) as name, null::bigint as correlation,
    concat_ws(
        ',',
        arg('samples', samples), arg_finite('loss', loss), arg_finite('accuracy', accuracy), arg('data_wait_ns', data_wait_ns),
        left_over(args)
    ) as members
from steps;

create or replace temp view exported_others as  -- events of other tools; B and E keep their order in the file
select
    run, source, rank, 'other' as place, pid, tid, null::integer as device, null::bigint as context, null::bigint as stream,
    track, start_ns, case when phase = 'X' then dur_ns end as dur_ns, case when phase = 'X' then start_ns + dur_ns end as end_ns,
    coalesce(category, 'other') as category, name, null::bigint as correlation, phase, row_number() over () as place_in_file,
    concat_ws(',', case when phase not in ('X', 'i', 'B', 'E') then arg_text('phase', phase) end, left_over(args)) as members
from other_events
where phase in ('X', 'i', 'I', 'R', 'P', 'B', 'E');
