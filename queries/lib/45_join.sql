-- The launches that ncu counted, found again among the kernels of a timeline of the same program.

-- kernel_signature(name): a kernel's whole name, template arguments included, as all profilers would spell it: without
-- return type, namespaces, parameters, blanks, casts of literals and their suffixes; lambdas as lambda#3. kernel_key() is
-- the function alone. Apply it to distinct names.
create or replace macro kernel_signature(name) as
    regexp_replace(
        list_reduce(
            list_prepend(
                regexp_replace(
                    regexp_replace(
                        regexp_replace(
                            regexp_replace(
                                regexp_replace(
                                    regexp_replace(name, '^(?:void|(?:typename )?std::enable_if<[^<>]*>::type) ', ''),
                                    '\(anonymous(?: namespace)?\)(::)?|<unnamed>(::)?|_GLOBAL__N_\w+(::)?', '', 'g'
                                ),
                                '\(instance (\d+)\)', '#\1', 'g'
                            ),
                            '\((?:[A-Za-z_][\w:]*(?: [a-z]+)*)\)(-?\d)', '\1', 'g'
                        ),
                        '\btrue\b', '1', 'g'
                    ),
                    '\bfalse\b', '0', 'g'
                ),
                range(8)::varchar[]
            ),
            lambda text, pass: regexp_replace(text, '\([^()]*\)', '', 'g')  -- the innermost parentheses go first
        ),
        '\b(\d+)[uUlL]+\b|\w+::|::|\bconst\b|[\s\[\]{}]', '\1', 'g'
    );

-- paired_runs(ncu): which run's counts a timeline takes: those of `ncu`; else its own; else of the newest run of the same
-- program; else of the only run that has any. A row is one run with kernels; `ncu_run` is NULL where none is found.
create or replace macro paired_runs(ncu) as table
with _profiled as (
    select m.run, any_value(r.program) as program, any_value(r.started_at) as started_at
    from (select distinct run from kernel_metrics) as m
    left join runs as r using (run)
    group by m.run
),
_timelines as (
    select k.run, any_value(r.program) as program
    from (select distinct run from kernels) as k
    left join runs as r using (run)
    group by k.run
)
select
    t.run,
    coalesce(
        max(p.run) filter (p.run = ncu),
        case
            when ncu is null then coalesce(
                max(p.run) filter (p.run = t.run),
                arg_max(p.run, (coalesce(epoch_us(p.started_at), 0), p.run)) filter (p.program = t.program),
                case when count(p.run) = 1 then max(p.run) end
            )
        end
    ) as ncu_run
from _timelines as t
left join _profiled as p on true
group by t.run;

-- shown_bytes(bytes): a size of shared memory as ncu prints it, in kilobytes with two digits from 1000 bytes on.
create or replace macro shown_bytes(bytes) as case when bytes >= 1000 then round(bytes / 1000, 2) * 1000 else bytes end;

-- shape_key(level, signature, grid, block, shared_bytes): what must be equal at a level of certainty; NULL where unknown.
-- 5: name, grid, block, shared memory. 4: name, grid, block. 3: function, grid, block. 2: name and grid. 1: name.
create or replace macro shape_key(level, signature, function, grid, block, shared_bytes) as
    case
        when level >= 2 and grid.x is null or level >= 3 and block.x is null or level = 5 and shared_bytes is null then null
        else {
            'level': level,
            'name': case when level = 3 then function else signature end,
            'grid': case when level >= 2 then grid end,
            'block': case when level >= 3 then block end,
            'shared': case when level = 5 then shown_bytes(shared_bytes) end
        }
    end;

-- matched(executions, profiled): every execution of a relation of `kernels` with `ncu_run`, with the launch of a relation
-- of ncu_launches whose counts are its own: the n-th of a key is the n-th that was profiled, and begins anew where fewer
-- were. Counts of the same rank and device are taken, or those of the only ones that were profiled.
-- `match` is exact (as many executions as profiled launches of that name, grid, block and shared memory), periodic (a
-- multiple of them: one step profiled, many traced), shape (another number), function (name without template arguments,
-- grid and block), grid (name and grid), name, or none.
create or replace macro matched(executions, profiled) as table
with _names as (
    select name, kernel_signature(name) as signature, kernel_key(name) as function
    from (select name from query_table(executions) union select name from query_table(profiled))
),
_places as (select run, {'rank': rank, 'device': device} as place from query_table(profiled) group by all),
_only as (select run, any_value(place) as place from _places group by run having count(*) = 1),
_executions as materialized (
    select
        e.run, e.source, e.rank, e.pid, e.device, e.name, e.start_ns, e.dur_ns, e.correlation, e.ncu_run,
        coalesce(p.place, o.place) as place,
        n.signature, n.function,
        {'x': e.grid_x, 'y': e.grid_y, 'z': e.grid_z} as grid,
        {'x': e.block_x, 'y': e.block_y, 'z': e.block_z} as block,
        e.shared_static_bytes + e.shared_dynamic_bytes as shared_bytes
    from query_table(executions) as e
    left join _names as n on e.name is not distinct from n.name
    left join _places as p on e.ncu_run = p.run and e.rank = p.place.rank and e.device is not distinct from p.place.device
    left join _only as o on e.ncu_run = o.run
),
_counted as materialized (
    select
        l.run, {'rank': l.rank, 'device': l.device} as place, l.id, l.source, l.pid, l.launch,
        shape_key(level, n.signature, n.function, l.grid, l.block, l.shared_bytes) as key
    from query_table(profiled) as l
    join _names as n on l.name is not distinct from n.name
    cross join (from range(1, 6)) as levels(level)
),
_keys as materialized (
    select run, place, key, count(*) as launches, row_number() over () as key_number
    from _counted
    where key is not null
    group by run, place, key
),
_shapes as (
    select distinct ncu_run, place, signature, function, grid, block, shared_bytes from _executions
),
_chosen as (
    select
        s.ncu_run, s.place, s.signature, s.function, s.grid, s.block, s.shared_bytes,
        max_by(k.key, level) as key,
        max_by(k.key_number, level) as key_number,
        max_by(k.launches, level) as launches
    from _shapes as s
    cross join (from range(1, 6)) as levels(level)
    join _keys as k
        on s.ncu_run = k.run and s.place = k.place
        and k.key = shape_key(level, s.signature, s.function, s.grid, s.block, s.shared_bytes)
    group by s.ncu_run, s.place, s.signature, s.function, s.grid, s.block, s.shared_bytes
),
_numbered as (
    select
        e.*, c.key.level as level, c.key_number, c.launches,
        row_number() over (alike order by e.start_ns, e.correlation) as number,
        count(*) over alike as executions
    from _executions as e
    left join _chosen as c
        on e.ncu_run = c.ncu_run and e.place = c.place and e.signature is not distinct from c.signature
        and e.function is not distinct from c.function
        and e.grid = c.grid and e.block = c.block and e.shared_bytes is not distinct from c.shared_bytes
    window alike as (partition by e.run, e.ncu_run, e.rank, e.device, c.key_number)
),
_launches as (
    select
        k.key_number, c.id,
        row_number() over (partition by k.key_number order by c.source, c.pid, c.launch) as number
    from _counted as c
    join _keys as k on c.run = k.run and c.place = k.place and c.key = k.key
)
select
    n.run, n.source, n.rank, n.pid, n.device, n.name, n.grid, n.block, n.start_ns, n.dur_ns, n.correlation, n.ncu_run,
    n.place.rank as ncu_rank,
    l.id,
    case
        when n.level is null then 'none'
        when n.level >= 4 and n.executions = n.launches then 'exact'
        when n.level >= 4 and n.executions % n.launches = 0 then 'periodic'
        when n.level >= 4 then 'shape'
        when n.level = 3 then 'function'
        when n.level = 2 then 'grid'
        else 'name'
    end as match
from _numbered as n
left join _launches as l
    on n.key_number = l.key_number and (n.number - 1) % n.launches + 1 = l.number;

-- shown_shape(shape): a grid or block as text, NULL where it is unknown.
create or replace macro shown_shape(shape) as printf('%d, %d, %d', shape.x, shape.y, shape.z);
