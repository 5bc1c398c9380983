-- The macros and views of queries/lib that have to do with counters of kernels, for a session without `kernel_metrics`, where
-- they replace those of the same names: no launch was profiled there. The rows are the same, and nothing is sorted or matched.

create or replace view ncu_launches as
select
    null::varchar as run, null::varchar as source, null::integer as rank, null::bigint as pid, null::bigint as launch,
    null::struct(run varchar, source varchar, pid bigint, launch bigint) as id,
    null::integer as device, null::bigint as stream, null::varchar as name,
    null::struct(x integer, y integer, z integer) as grid,
    null::struct(x integer, y integer, z integer) as block,
    null::double as shared_bytes, null::varchar as clock_control, null::bigint as dur_ns, null::varchar as time_source,
    null::double as exact_ns, null::double as clock_hz,
    null::bigint as dram_bytes, null::bigint as l2_bytes, null::bigint as l1_bytes,
    null::double as dram_peak_gb_per_s, null::double as l2_peak_gb_per_s, null::double as l1_peak_gb_per_s, null::double as cc
where false;

create or replace macro launch_flop(relation, half) as table
select
    id, null::varchar as precision, null::double as flop, null::varchar as origin, null::varchar[] as missing,
    null::boolean as is_shown
from query_table(relation)
where false;

create or replace macro launch_peaks(relation) as table
select id, null::varchar as ceiling, null::double as per_s from query_table(relation) where false;

create or replace macro paired_runs(ncu) as table
select run, null::varchar as ncu_run from kernels group by run having count(*) > 0;

create or replace macro match_launches(executions, profiled) as table
with _kinds as (
    select
        run, ncu_run, rank, device, name, grid_x, grid_y, grid_z, block_x, block_y, block_z,
        shared_static_bytes + shared_dynamic_bytes as shared_bytes,
        count(*) as executions,
        sum(dur_ns) as dur_ns
    from query_table(executions)
    group by all
)
select
    k.run, k.rank, k.device, k.name,
    {'x': k.grid_x, 'y': k.grid_y, 'z': k.grid_z} as grid,
    {'x': k.block_x, 'y': k.block_y, 'z': k.block_z} as block,
    k.executions, k.dur_ns, k.ncu_run,
    l.rank as ncu_rank, l.id,
    'none' as match,
    row_number() over () as kind
from _kinds as k
left join query_table(profiled) as l on false;
