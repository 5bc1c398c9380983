-- When each source's events begin and end, on its own clock: what a profiler recorded apart from what a run folder notes.

-- span_of(relation): of a relation with run, source, start_ns and dur_ns. A duration below 0 or beyond reason counts as none.
create or replace temp macro span_of(relation) as table
select
    run, source,
    min(start_ns) as first_ns,
    max(case when has_valid_interval(start_ns, try(start_ns + dur_ns)) then start_ns + dur_ns else start_ns end) as last_ns
from query_table(relation)
where has_valid_interval(start_ns, start_ns)
group by run, source;

create or replace temp view sampled_times as
select run, source, time_ns as start_ns, 0 as dur_ns from memory_events
union all
select run, source, time_ns, 0 from counters;

create or replace temp view drawn_others as
select run, source, start_ns, dur_ns from other_events where phase in ('X', 'i', 'I', 'R', 'P', 'B', 'E');

create or replace temp view host_times as
select run, source, time_ns as start_ns, 0 as dur_ns from host_samples;

create or replace temp view source_spans as
with _spans as (
    select *, true as profiled from span_of('kernels')
    union all
    select *, true from span_of('memcpys')
    union all
    select *, true from span_of('memsets')
    union all
    select *, true from span_of('graph_launches')
    union all
    select *, true from span_of('syncs')
    union all
    select *, true from span_of('api_calls')
    union all
    select *, true from span_of('ops')
    union all
    select *, true from span_of('python_frames')
    union all
    select *, true from span_of('annotations')
    union all
    select *, true from span_of('sampled_times')
    union all
    select *, true from span_of('drawn_others')
    union all
    select *, false from span_of('steps')
    union all
    select *, false from span_of('host_times')
)
select run, source, bool_or(profiled) as profiled, min(first_ns) as first_ns, max(last_ns) as last_ns
from _spans
group by run, source;
