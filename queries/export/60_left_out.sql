-- left_out: what has no place on a timeline. A row is one kind of it: what it is, as words, and how many there are.
create or replace temp view left_out as
with _untimed as (
    select run, source, start_ns from kernels
    union all
    select run, source, start_ns from memcpys
    union all
    select run, source, start_ns from memsets
    union all
    select run, source, start_ns from graph_launches
    union all
    select run, source, start_ns from syncs
    union all
    select run, source, start_ns from api_calls
    union all
    select run, source, start_ns from ops
    union all
    select run, source, start_ns from python_frames
    union all
    select run, source, start_ns from annotations
),
_notes as (
    select run, source, start_ns as at_ns from steps
    union all
    select run, source, time_ns from host_samples
)
select 'events without a start' as what, count(*) as count
from _untimed
join exported using (run, source)
where start_ns is null or not has_valid_interval(start_ns, start_ns)
union all
select 'steps and samples of the run folder from before or after that time', count(*)
from _notes as n
join exported as e using (run, source)
where at_ns < from_ns or at_ns >= to_ns
union all
select format('events of other tools with the phase {}', phase), count(*)
from other_events
join exported using (run, source)
where phase not in ('X', 'i', 'I', 'R', 'P', 'B', 'E', 'M', 's', 't', 'f')  -- names and arrows are written anew
group by phase;

-- thread_names: the names of threads in other_events.
create or replace temp view thread_names as
select o.run, o.rank, o.pid, o.tid, any_value(o.args ->> 'name') as name
from other_events as o
join exported using (run, source)
where o.phase = 'M' and o.name = 'thread_name' and o.tid is not null
group by o.run, o.rank, o.pid, o.tid;
