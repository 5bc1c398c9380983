-- The time of steps, and the kernels in it, as mfu defines both. `pairs` is timed_pairs().

-- step_marks(pairs, of_rank, of_step_name): the ranges of steps, in the scope or not. A row is one: run, source, rank, start_ns,
-- end_ns, is_in_scope. A scope that leaves out a call within a step, as one of times may, does not have it whole.
create or replace macro step_marks(pairs, of_rank, of_step_name) as table
with _left_out as materialized (
    select run, source, rank, pid, start_ns
    from left_out_api_calls
    where start_ns is not null and run in (select run from query_table(pairs)) and matches(rank, of_rank)
)
select
    a.run, a.source, a.rank, a.start_ns, a.end_ns, s.run is not null and coalesce(o.start_ns >= a.end_ns, true) as is_in_scope
from unscoped_annotations as a
asof left join _left_out as o
    on a.run = o.run and a.source = o.source and a.rank = o.rank and coalesce(a.pid, -1) = coalesce(o.pid, -1)
    and a.start_ns <= o.start_ns
left join (select distinct run, source, rank, pid, tid, name, start_ns, end_ns from annotations where scope = 'cpu') as s
    on a.run = s.run and a.source = s.source and a.rank = s.rank and a.pid is not distinct from s.pid
    and a.tid is not distinct from s.tid and a.name = s.name and a.start_ns = s.start_ns and a.end_ns = s.end_ns
where
    a.scope = 'cpu' and regexp_matches(a.name, of_step_name) and has_valid_interval(a.start_ns, a.end_ns)
    and a.run in (select run from query_table(pairs)) and matches(a.rank, of_rank);

-- scope_step_ranges(marks): from the first start to the last end of step_marks() in the scope, of each source: run, source, rank,
-- start_ns, end_ns, steps.
create or replace macro scope_step_ranges(marks) as table
select run, source, rank, min(start_ns) as start_ns, max(end_ns) as end_ns, count(*) as steps
from query_table(marks)
where is_in_scope
group by run, source, rank;

-- kernels_of_steps(pairs, ranges, of_rank, of_device): the kernels whose call began in scope_step_ranges(), with its start, called_ns; in a
-- source without steps all of them. One without a recorded call, and each in a scope by execution, counts by its own start.
create or replace macro kernels_of_steps(pairs, ranges, of_rank, of_device) as table
with _calls as (
    select run, source, pid, correlation, min(start_ns) as called_ns
    from unscoped_api_calls
    where
        correlation is not null and run in (select run from query_table(pairs)) and matches(rank, of_rank)
        and not exists (from around_api_calls)
    group by run, source, pid, correlation
)
select k.*, c.called_ns
from kernels as k
left join _calls as c
    on k.run = c.run and k.source = c.source and k.pid is not distinct from c.pid and k.correlation = c.correlation
left join query_table(ranges) as r on k.run = r.run and k.source = r.source and k.rank = r.rank
where
    k.run in (select run from query_table(pairs)) and matches(k.rank, of_rank) and matches(k.device, of_device)
    and has_valid_interval(k.start_ns, k.end_ns) and (r.run is null or coalesce(c.called_ns, k.start_ns) between r.start_ns and r.end_ns);

-- step_windows(pairs, marks, ranges, timed, of_rank, of_device): the time of steps, from step_marks(), scope_step_ranges() and
-- kernels_of_steps(). A row is one run, rank and device: window_ns, steps.
create or replace macro step_windows(pairs, marks, ranges, timed, of_rank, of_device) as table
with _spans as (  -- steps in the scope with no other step between them have the same number
    select
        *,
        count_if(not is_in_scope) over (
            partition by run, source, rank order by start_ns, end_ns desc rows unbounded preceding
        ) as number
    from query_table(marks)
),
_activity as not materialized (  -- one pass finds the windows, and few other uses need rows
    select run, source, rank, device, start_ns, end_ns
    from gpu_activity
    where run in (select run from query_table(pairs)) and matches(rank, of_rank) and matches(device, of_device)
),
_recorded as materialized (
    select run, source, rank, device, first_ns as start_ns, last_ns as end_ns from lanes('_activity')
),
_widened as not materialized (  -- to the bounds of a scope of times
    from _recorded
    union all
    from scope_edge_rows('_activity')
),
_scope_spans as materialized (  -- these are one, with the time between them
    select
        run, source, rank,
        min(start_ns) as start_ns,
        max(end_ns) as end_ns,
        count(*) over (partition by run, source, rank) as spans
    from _spans
    where is_in_scope
    group by run, source, rank, number
),
_several_spans as (
    from _scope_spans where spans > 1
),
_launched as materialized (
    select run, source, rank, device, end_ns, coalesce(called_ns, start_ns) as at_ns
    from query_table(timed)
    semi join _scope_spans using (run, source, rank)
),
_ends as (  -- of the kernels that each span launched; an asof join sorts them, which one span for all needs not
    select k.run, k.source, k.rank, k.device, s.start_ns, max(k.end_ns) as end_ns
    from _launched as k
    join _scope_spans as s on k.run = s.run and k.source = s.source and k.rank = s.rank and k.at_ns >= s.start_ns
    where s.spans = 1
    group by k.run, k.source, k.rank, k.device, s.start_ns
    union all
    select k.run, k.source, k.rank, k.device, s.start_ns, max(k.end_ns) as end_ns
    from (from _launched semi join _several_spans using (run, source, rank)) as k
    asof join _several_spans as s on k.run = s.run and k.source = s.source and k.rank = s.rank and k.at_ns >= s.start_ns
    group by k.run, k.source, k.rank, k.device, s.start_ns
),
_pieces as materialized (  -- of the time; without steps the window of each source
    select w.run, s.source, w.rank, w.device, s.start_ns, greatest(s.end_ns, e.end_ns) as end_ns
    from (select distinct run, rank, device from _recorded) as w
    join _scope_spans as s on w.run = s.run and w.rank = s.rank
    left join _ends as e
        on s.run = e.run and s.source = e.source and s.rank = e.rank and w.device = e.device and s.start_ns = e.start_ns
    union all
    select run, source, rank, device, first_ns, last_ns from lanes('_widened') anti join query_table(ranges) using (run, rank)
),
_others as materialized (
    select run, source, rank, device, start_ns, end_ns
    from out_of_scope_activity
    where run in (select run from query_table(pairs)) and matches(rank, of_rank) and matches(device, of_device)
        and (run, source, rank, device) in (select (run, source, rank, device) from _activity)
),
_running as (  -- mostly none: then nothing is swept
    from _activity semi join _others using (run, source, rank)
)
select
    w.run, w.rank, w.device, w.a_ns + w.ab_ns + w.abc_ns as window_ns,
    as_bigint(sum(r.steps)) as steps
from regions('_pieces', '_running', '_others') as w
left join query_table(ranges) as r on w.run = r.run and w.rank = r.rank
group by w.run, w.rank, w.device, w.a_ns + w.ab_ns + w.abc_ns;
