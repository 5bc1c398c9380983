-- Which two runs are compared, and whether one profiler recorded them.

-- profilers(formats): those of a list of formats whose times include what the profiler costs the host, as text; NULL for none.
-- Run folders and ncu's counters time no program.
create or replace macro profilers(formats) as
    nullif(array_to_string(list_sort(list_distinct(list_filter(formats, lambda format: format not in ('run', 'ncu')))), ', '), '');

-- compared_runs(before, after): one row, the names of two runs; where one is NULL, the first or last of the others.
create or replace macro compared_runs(before, after) as table
select
    coalesce(before, (select min(run) from sources where run is distinct from after)) as before,
    coalesce(after, (select max(run) from sources where run is distinct from before)) as after;

-- mixes_profilers(before, after): one row, whether other profilers recorded one of compared_runs() than the other.
create or replace macro mixes_profilers(before, after) as table
with _profilers as (
    select s.run, profilers(list(s.format)) as profiler
    from sources as s
    join compared_runs(before, after) as c on s.run in (c.before, c.after)
    group by s.run
)
select count(distinct profiler) > 1 as is_mixed from _profilers;
