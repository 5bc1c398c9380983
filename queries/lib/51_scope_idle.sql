-- Whose idle time it is: a stretch in which a device runs nothing belongs to the row that ends it, as its cause does. So idle
-- times of disjoint scopes add up to that of the recording.

-- scope_has_first_gap(): whether the gap before the first row of a scope is that of the scope; false where a time begins it.
create or replace macro scope_has_first_gap() as true;

-- scope_bounds: where a scope of times alone, --from and --to, begins and ends by the clock of each source; NULL where it has no
-- such end, and no row in a session without such a scope.
create or replace view scope_bounds as
select null::varchar as run, null::varchar as source, null::bigint as from_ns, null::bigint as to_ns where false;
comment on view scope_bounds is 'one source, and the times that bound the scope on its clock';

-- scope_edges(relation): the bounds of a scope of times on each device of a relation of GPU rows (run, source, rank, device,
-- start_ns, end_ns), no sooner and no later than anything that was recorded there.
create or replace macro scope_edges(relation) as table
with _recorded as (
    select run, source, rank, device, start_ns, end_ns, true as is_own from query_table(relation) semi join scope_bounds using (run, source)
    union all
    select run, source, rank, device, start_ns, end_ns, false from out_of_scope_activity semi join scope_bounds using (run, source)
),
_devices as (
    select run, source, rank, device, min(start_ns) as first_ns, max(end_ns) as last_ns
    from _recorded
    where has_valid_interval(start_ns, end_ns)
    group by run, source, rank, device
    having bool_or(is_own)
)
select
    d.run, d.source, d.rank, d.device,
    case when b.from_ns is not null then greatest(b.from_ns, d.first_ns) end as first_ns,
    case when b.to_ns is not null then least(b.to_ns, d.last_ns) end as last_ns
from _devices as d
join scope_bounds as b using (run, source);

-- scope_edge_rows(relation): rows of 0 ns at these bounds, which widen the relation to them.
create or replace macro scope_edge_rows(relation) as table
select run, source, rank, device, at_ns as start_ns, at_ns as end_ns
from (
    select run, source, rank, device, unnest([first_ns, last_ns]) as at_ns from scope_edges(relation)
)
where at_ns is not null;

-- scope_gaps(relation): the gaps of the recording that a row of the relation ends, or another one in its window; `is_own`
-- states which. The relation has GPU rows of a session, as gaps() takes them; what a scope leaves out of their devices ends
-- gaps, too. The first one may begin before the window. A scope of times has its window from bound to bound: of a gap
-- across one the scope has the piece on its own side.
create or replace macro scope_gaps(relation) as table
with _rows as not materialized (
    select run, source, rank, pid, device, start_ns, end_ns, correlation from query_table(relation)
    union all
    select run, source, rank, pid, device, start_ns, end_ns, correlation from out_of_scope_activity
),
_edges as materialized (
    from scope_edges(relation)
),
_windows as (
    select
        w.run, w.source, w.rank, w.device,
        least(w.first_ns, e.first_ns) as first_ns,
        greatest(w.last_ns, e.last_ns) as last_ns,
        e.first_ns as from_ns,
        e.last_ns as to_ns
    from (
        select run, source, rank, device, min(start_ns) as first_ns, max(end_ns) as last_ns
        from query_table(relation)
        where has_valid_interval(start_ns, end_ns)
        group by run, source, rank, device
    ) as w
    left join _edges as e
        on w.run = e.run and w.source = e.source and w.rank = e.rank and w.device is not distinct from e.device
),
_others as (  -- starts of rows outside of the scope at which none of the relation starts
    select run, source, rank, device, start_ns from out_of_scope_activity where has_valid_interval(start_ns, end_ns)
    except
    select run, source, rank, device, start_ns from query_table(relation)
),
_gaps as (
    select
        g.run, g.source, g.rank, g.device, g.pid, g.correlation, w.first_ns, w.last_ns,
        g.end_ns as row_ns,
        o.run is null as is_own,
        greatest(g.start_ns, w.from_ns) as start_ns,
        -- the bound between, and the end
        unnest(case when g.start_ns < w.to_ns and g.end_ns > w.to_ns then [w.to_ns, g.end_ns] else [g.end_ns] end) as end_ns,
        w.to_ns
    from gaps('_rows') as g
    join _windows as w
        on g.run = w.run and g.source = w.source and g.rank = w.rank and g.device is not distinct from w.device
    left join _others as o
        on g.run = o.run and g.source = o.source and g.rank = o.rank and g.device is not distinct from o.device
        and g.end_ns = o.start_ns
),
_pieces as (
    select
        * exclude (row_ns, to_ns) replace (
            case when start_ns < to_ns and end_ns > to_ns then to_ns else start_ns end as start_ns,
            is_own or end_ns < row_ns as is_own
        )
    from _gaps
)
select run, source, rank, device, start_ns, end_ns, end_ns - start_ns as dur_ns, pid, correlation, first_ns, last_ns, is_own
from _pieces
where start_ns < end_ns and end_ns between first_ns and last_ns and (end_ns > first_ns or scope_has_first_gap());

-- idle_outside(relation): what widens the rows of a relation to the window of a scope, and is no idle time of it: gaps that rows
-- outside of it end, and as stretches of 0 ns where the gap begins that its first row ends, and the bounds of a scope of times.
-- The relation has run, source, rank, device, start_ns and end_ns. None in a session without a scope.
create or replace macro idle_outside(relation) as table
with _own as not materialized (
    select run, source, rank, null::bigint as pid, device, start_ns, end_ns, null::bigint as correlation
    from query_table(relation)
    semi join out_of_scope_activity using (run, source, rank)
)
select run, source, rank, device, start_ns, case when is_own then start_ns else end_ns end as end_ns
from scope_gaps('_own')
where not is_own or end_ns = first_ns
union all
from scope_edge_rows('_own');

-- scope_windows(relation): windows() of the relation, from where the gap begins that its first row ends; of a scope of times
-- from bound to bound, or to the end of its last row, which is later where that runs past the bound.
create or replace macro scope_windows(relation) as table
with _widened as (
    select run, source, rank, device, start_ns, end_ns from query_table(relation)
    union all
    from idle_outside(relation)
)
from windows('_widened');
