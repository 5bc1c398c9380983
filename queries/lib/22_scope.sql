-- What a scope leaves out of a device's time: rows of out_of_scope_activity, a view that has none where a session has no scope.

-- out_of_scope_rows(relation): the rows outside of the scope that ran in the window of a relation of GPU rows, from the first
-- start to the last end of a source's rows on a device, cut to that window. Columns as of the view.
create or replace macro out_of_scope_rows(relation) as table
with _windows as (
    select run, source, rank, device, min(start_ns) as first_ns, max(end_ns) as last_ns
    from (from query_table(relation) semi join out_of_scope_activity using (run, source, rank))
    where has_valid_interval(start_ns, end_ns)
    group by run, source, rank, device
)
select o.* replace (greatest(o.start_ns, w.first_ns) as start_ns, least(o.end_ns, w.last_ns) as end_ns)
from out_of_scope_activity as o
join _windows as w
    on o.run = w.run and o.source = w.source and o.rank = w.rank and o.device is not distinct from w.device
where has_valid_interval(o.start_ns, o.end_ns) and o.end_ns > w.first_ns and o.start_ns < w.last_ns;

-- out_of_scope_times(relation): the time in that window in which rows outside of the scope ran, and none of the relation. A row
-- is one run, rank and device; those without such rows are left out.
create or replace macro out_of_scope_times(relation) as table
with _others as (
    from out_of_scope_rows(relation)
),
_own as (
    select run, source, rank, device, start_ns, end_ns
    from (from query_table(relation) semi join out_of_scope_activity using (run, source, rank))
),
_all as (
    from _own
    union all
    select run, source, rank, device, start_ns, end_ns from _others
)
select a.run, a.rank, a.device, as_bigint(a.busy_ns - o.busy_ns) as out_of_scope_ns
from busy('_all') as a
join busy('_own') as o on a.run = o.run and a.rank = o.rank and a.device is not distinct from o.device;
