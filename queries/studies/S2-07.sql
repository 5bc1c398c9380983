-- With --set full ncu runs every kernel many times over, with caches flushed and, unless told otherwise, at base clocks:
-- its counts are right, its times are not those of training. Launch for launch the two are compared here where a timeline
-- of the same program is at hand.
-- /// study
-- title = "The report of ncu"
-- study = "time of the profiled launches"
-- corrected = "time of the same kernels on the timeline"
-- fits = "kernel_metrics"
-- capture = "tracelab collect sweep S2"
-- example = ["generated/ncu-forward"]
-- ///
with profiled as (
    select
        run, launch,
        max(value) filter (metric = 'gpu__time_duration.sum') as dur_ns,
        count(distinct metric) as metrics,
        any_value(clock_control) as clock_control
    from kernel_metrics
    where run in (select run from fitting)
    group by run, launch
)
select
    'time of the launches' as quantity, p.run, f.model, f.gpu as machine, f.batch_size,
    coalesce(any_value(p.clock_control), 'clocks not told') as setting, 'ns' as unit,
    sum(p.dur_ns) as study,
    (
        select sum(k.dur_ns) from kernels as k
        join runs as r on k.run = r.run
        where r.program = f.program and k.run <> p.run
    ) as corrected
from profiled as p
join fitting as f using (run)
group by p.run, f.model, f.gpu, f.batch_size, f.program
union all
select 'metrics of a launch', p.run, f.model, f.gpu, f.batch_size, null, 'count', avg(p.metrics), null
from profiled as p
join fitting as f using (run)
group by p.run, f.model, f.gpu, f.batch_size
order by all;

select
    printf('%.0f metrics a launch were taken; ', avg(study) filter (quantity = 'metrics of a launch'))
    || case
        when count(corrected) > 0 then printf('the launches took %.2f times the time that their kernels take on the timeline.', sum(study) filter (corrected is not null) / sum(corrected))
        when bool_or(setting = 'clocks not told') then 'at which clocks is not told, so their times stand beside no timeline.'
        else 'no timeline of the same program is at hand to compare their times with.'
    end as verdict
from cells
