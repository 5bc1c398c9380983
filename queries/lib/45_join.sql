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

-- match_launches(executions, profiled): the executions of a relation of `kernels` with `ncu_run`, with the launch of a
-- relation of ncu_launches whose counts are theirs: the n-th of a key is the n-th that was profiled, and begins anew where
-- fewer were. Counts of the same rank and device are taken, or those of the only ones that were profiled. A row is one kind
-- of executions, which cannot be distinguished, and one launch whose counts they take: their number and their time.
-- `match` is exact (as many executions as profiled launches of that name, grid, block and, where both record it, shared
-- memory), periodic (a multiple of them: one step profiled, many traced), shape (another number), other_memory (name, grid
-- and block, and another size of shared memory), function (name without template arguments, grid and block), grid (name
-- and grid), name, or none.
create or replace macro match_launches(executions, profiled) as table
with _kinds as materialized (  -- executions that cannot be distinguished: a million kernels have some hundred
    select
        row_number() over () as kind,
        run, ncu_run, rank, device, name, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, times,
        {'x': grid_x, 'y': grid_y, 'z': grid_z} as grid,
        {'x': block_x, 'y': block_y, 'z': block_z} as block
    from (
        select
            run, ncu_run, rank, device, name, grid_x, grid_y, grid_z, block_x, block_y, block_z,
            shared_static_bytes + shared_dynamic_bytes as shared_bytes,
            count(*) as times
        from query_table(executions)
        group by all
        having times > 0  -- always so; but DuckDB then takes the kinds for few, and builds no hash tables on the executions
    )
),
_shapes as materialized (  -- and so for the profiled launches
    select
        row_number() over () as shape,
        run, {'rank': rank, 'device': device} as place, name, grid, block, shared_bytes,
        count(*) as launches
    from query_table(profiled)
    group by run, rank, device, name, grid, block, shared_bytes
),
_names as (
    select name, kernel_signature(name) as signature, kernel_key(name) as function
    from (select name from _kinds union select name from _shapes)
),
_places as (select distinct run, place from _shapes),
_only as (select run, any_value(place) as place from _places group by run having count(*) = 1),
_known as materialized (
    select k.*, n.signature, n.function, coalesce(p.place, o.place) as place
    from _kinds as k
    left join _names as n on k.name is not distinct from n.name
    left join _places as p on k.ncu_run = p.run and k.rank = p.place.rank and k.device is not distinct from p.place.device
    left join _only as o on k.ncu_run = o.run
),
_shape_keys as materialized (
    select
        s.shape, s.run, s.place, s.launches,
        shape_key(level, n.signature, n.function, s.grid, s.block, s.shared_bytes) as key
    from _shapes as s
    join _names as n on s.name is not distinct from n.name
    cross join (from range(1, 6)) as levels(level)
),
_keys as materialized (
    select run, place, key, sum(launches)::bigint as launches, list(shape) as shapes, row_number() over () as key_number
    from _shape_keys
    where key is not null
    group by run, place, key
),
_chosen as (
    select
        k.kind,
        max(level) as level,
        max_by(c.key_number, level) as key_number,
        max_by(c.launches, level) as launches
    from _known as k
    cross join (from range(1, 6)) as levels(level)
    join _keys as c
        on k.ncu_run = c.run and k.place = c.place
        and c.key = shape_key(level, k.signature, k.function, k.grid, k.block, k.shared_bytes)
    group by k.kind
),
_grouped as (  -- those that share a key are numbered together
    select
        k.*, c.level, c.key_number, c.launches,
        dense_rank() over (order by k.run, k.ncu_run, k.rank, k.device, c.key_number) as alike
    from _known as k
    left join _chosen as c using (kind)
),
_alike as materialized (
    select
        *,
        (sum(times) over (partition by alike))::bigint as executions_alike,
        (sum(times) over (order by alike) - sum(times) over (partition by alike))::bigint as sooner
    from _grouped
),
_ordered as (
    select a.kind, a.sooner, a.launches, e.dur_ns
    from query_table(executions) as e
    join _alike as a
        on e.run = a.run and e.name is not distinct from a.name and e.ncu_run is not distinct from a.ncu_run
        and e.rank = a.rank and e.device is not distinct from a.device
        and e.grid_x is not distinct from a.grid_x and e.grid_y is not distinct from a.grid_y
        and e.grid_z is not distinct from a.grid_z
        and e.block_x is not distinct from a.block_x and e.block_y is not distinct from a.block_y
        and e.block_z is not distinct from a.block_z
        and e.shared_static_bytes + e.shared_dynamic_bytes is not distinct from a.shared_bytes
    order by a.alike, e.start_ns, e.correlation
),
_numbered as (  -- in the order of all, which is less work than a window with partitions
    select kind, sooner, launches, dur_ns, row_number() over () as place from _ordered
),
_taken as (
    select kind, (place - sooner - 1) % launches + 1 as number, count(*) as executions, sum(dur_ns) as dur_ns
    from _numbered
    group by kind, number
),
_launches as (
    select
        k.key_number, l.id, l.shared_bytes,
        row_number() over (partition by k.key_number order by l.source, l.pid, l.launch) as number
    from (
        select key_number, unnest(shapes) as shape
        from _keys
        where key_number in (select key_number from _alike)
    ) as k
    join _shapes as s using (shape)
    join query_table(profiled) as l
        on s.run = l.run and s.place.rank = l.rank and s.place.device is not distinct from l.device
        and s.name is not distinct from l.name and s.grid is not distinct from l.grid
        and s.block is not distinct from l.block and s.shared_bytes is not distinct from l.shared_bytes
)
select
    a.run, a.rank, a.device, a.name, a.grid, a.block, t.executions, t.dur_ns, a.ncu_run,
    a.place.rank as ncu_rank,
    l.id,
    case
        when a.level is null then 'none'
        when a.level = 4 and shown_bytes(a.shared_bytes) <> shown_bytes(l.shared_bytes) then 'other_memory'
        when a.level >= 4 and a.executions_alike = a.launches then 'exact'
        when a.level >= 4 and a.executions_alike % a.launches = 0 then 'periodic'
        when a.level >= 4 then 'shape'
        when a.level = 3 then 'function'
        when a.level = 2 then 'grid'
        else 'name'
    end as match,
    a.kind
from _taken as t
join _alike as a using (kind)
left join _launches as l on a.key_number = l.key_number and t.number = l.number;

-- shown_shape(shape): a grid or block as text, NULL where it is unknown.
create or replace macro shown_shape(shape) as printf('%d, %d, %d', shape.x, shape.y, shape.z);
