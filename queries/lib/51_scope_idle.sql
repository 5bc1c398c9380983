-- Whose idle time it is: a stretch in which a device runs nothing belongs to the row that ends it, as its cause does. So idle
-- times of disjoint scopes add up to that of the recording.

-- scope_has_first_gap(): whether the gap before the first row of a scope is that of the scope; false where a time begins it.
create or replace macro scope_has_first_gap() as true;

-- scope_gaps(relation): the gaps of the recording that a row of the relation ends, or another one in its window; `is_own`
-- states which. The relation has GPU rows of a session, as gaps() takes them; what a scope leaves out of their devices ends
-- gaps, too. The first one may begin before the window.
create or replace macro scope_gaps(relation) as table
with _rows as not materialized (
    select run, source, rank, pid, device, start_ns, end_ns, correlation from query_table(relation)
    union all
    select run, source, rank, pid, device, start_ns, end_ns, correlation from out_of_scope_activity
),
_windows as (
    select run, source, rank, device, min(start_ns) as first_ns, max(end_ns) as last_ns
    from query_table(relation)
    where has_valid_interval(start_ns, end_ns)
    group by run, source, rank, device
),
_others as (  -- starts of rows outside of the scope at which none of the relation starts
    select run, source, rank, device, start_ns from out_of_scope_activity where has_valid_interval(start_ns, end_ns)
    except
    select run, source, rank, device, start_ns from query_table(relation)
)
select g.*, w.first_ns, o.run is null as is_own
from gaps('_rows') as g
join _windows as w
    on g.run = w.run and g.source = w.source and g.rank = w.rank and g.device is not distinct from w.device
    and g.end_ns between w.first_ns and w.last_ns and (g.end_ns > w.first_ns or scope_has_first_gap())
left join _others as o
    on g.run = o.run and g.source = o.source and g.rank = o.rank and g.device is not distinct from o.device
    and g.end_ns = o.start_ns;

-- idle_outside(relation): what widens the rows of a relation to the window of a scope, and is no idle time of it: gaps that rows
-- outside of it end, and where the gap begins that its first row ends, as a stretch of 0 ns. The relation has run, source,
-- rank, device, start_ns and end_ns. None in a session without a scope.
create or replace macro idle_outside(relation) as table
with _own as not materialized (
    select run, source, rank, null::bigint as pid, device, start_ns, end_ns, null::bigint as correlation
    from query_table(relation)
    semi join out_of_scope_activity using (run, source, rank)
)
select run, source, rank, device, start_ns, case when is_own then start_ns else end_ns end as end_ns
from scope_gaps('_own')
where not is_own or end_ns = first_ns;

-- scope_windows(relation): windows() of the relation, from where the gap begins that its first row ends.
create or replace macro scope_windows(relation) as table
with _widened as (
    select run, source, rank, device, start_ns, end_ns from query_table(relation)
    union all
    from idle_outside(relation)
)
from windows('_widened');
