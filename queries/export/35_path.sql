-- The critical path, a track of each rank that it runs through; rows as in 20_gpu.sql.
create or replace temp view exported_path as
select
    run, source, rank, 'path' as place, null::bigint as pid, null::bigint as tid, null::integer as device,
    null::bigint as context, null::bigint as stream, null::varchar as track, start_ns, dur_ns, start_ns + dur_ns as end_ns,
    'critical_path' as category, concat_ws(': ', class, name) as name, null::bigint as correlation,
    concat_ws(',', arg_text('class', class), arg_text('op', op), arg_text('cause', cause)) as members
from exported_path_rows;
