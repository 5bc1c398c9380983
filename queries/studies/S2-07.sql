-- With --set full ncu runs every kernel many times over, with caches flushed and, by default, at base clocks: its
-- counts are right, its times are not those of training. Where a timeline of the same program is at hand, this row
-- compares each profiled launch with the mean of its executions on that timeline, one timeline at a time; it leaves out
-- a launch without executions on both sides, and compares no times at unknown clocks.
-- /// study
-- title = "The report of ncu"
-- study = "time of the profiled launches that are on the timeline"
-- corrected = "time of the same kernels on the timeline, launch for launch"
-- fits = "kernel_metrics"
-- capture = "tracelab collect sweep S2"
-- example = ["generated/ncu-forward"]
-- ///
with launches as materialized (
    select * from ncu_launches where run in (select run from fitting)
),
timelines as (
    select f.run as ncu_run, r.run
    from fitting as f
    join runs as r on f.program = r.program and f.run <> r.run
    where r.run in (select run from kernels) and f.run in (select run from launches where clock_control is not null)
),
executions as (
    select k.*, t.ncu_run
    from kernels as k join timelines as t on k.run = t.run where has_valid_interval(k.start_ns, k.end_ns)
),
matched as (
    select ncu_run, run, id, sum(dur_ns) / sum(executions) as mean_ns
    from match_launches('executions', 'launches')
    where match in ('exact', 'periodic', 'shape', 'other_memory', 'function')
    group by ncu_run, run, id
),
sums as (
    select run, clock_control, count(*) as launches, complete_sum(exact_ns) as dur_ns
    from launches group by run, clock_control
),
compared as (
    select
        l.run,
        l.clock_control,
        f.run as timeline,
        count(*) as launches,
        sum(l.exact_ns) as dur_ns,
        sum(f.mean_ns) as mean_ns
    from launches as l
    join matched as f on l.id = f.id
    where l.clock_control is not null and l.exact_ns is not null
    group by l.run, l.clock_control, f.run
),
metrics as (
    select run, count(distinct metric) as metrics
    from kernel_metrics
    where run in (select run from fitting)
    group by run, source, pid, launch
)
select
    'time of the launches' as quantity,
    s.run,
    f.model,
    f.gpu as machine,
    f.batch_size,
    concat_ws(', against ', coalesce('clocks: ' || s.clock_control, 'clocks unknown'), c.timeline) as setting,
    'ns' as unit,
    coalesce(c.dur_ns, s.dur_ns) as study,
    c.mean_ns as corrected,
    printf('%d of %d launches', coalesce(c.launches, s.launches), s.launches) as claim
from sums as s
join fitting as f using (run)
left join compared as c on s.run = c.run and s.clock_control = c.clock_control
union all by name
select
    'metrics of a launch' as quantity,
    m.run,
    f.model,
    f.gpu as machine,
    f.batch_size,
    'count' as unit,
    avg(m.metrics) as study
from metrics as m
join fitting as f using (run)
group by m.run, f.model, f.gpu, f.batch_size
order by all;

with counts as (
    select avg(study) as metrics from cells where quantity = 'metrics of a launch'
),
compared as (
    select join_list(list(printf('of %s (%s) %s took %.3g times the time of the same kernels', coalesce(model, run),
        setting, claim, study / corrected) order by model, run, setting)) as sentence
    from cells
    where corrected > 0
)
select
    printf('%.0f metrics a launch were taken; ', metrics)
    || case
        when sentence is not null then sentence || '.'
        when (select bool_or(setting = 'clocks unknown') from cells)
            then 'their clocks are unknown, so their times compare with no timeline.'
        else 'no timeline of the same program that has these kernels is at hand.'
    end as verdict
from counts, compared
