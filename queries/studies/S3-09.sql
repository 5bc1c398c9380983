-- The memory experiment recorded calls that query devices and their properties, none that allocates, copies or
-- launches; the log itself reports that no kernel was profiled. It is the start of the process, the same for every
-- model and batch.
-- /// study
-- title = "API calls of the memory experiment"
-- study = "time of a call / time of all calls"
-- corrected = "time of calls that allocate, copy, set or launch / time of all calls"
-- fits = "api_calls or run in (select run from summaries where kind = 'api_calls')"
-- capture = "tracelab collect sweep S3 --match '*nsys*'"
-- example = ["generated/nvprof"]
-- chart = { x = "setting", by = "run" }
-- ///
with calls as (
    select run, name, calls, dur_ns from summaries where kind = 'api_calls' and run in (select run from fitting)
    union all by name
    select run, name, count(*) as calls, sum(dur_ns) filter (has_valid_interval(start_ns, end_ns)) as dur_ns
    from api_calls
    where api in ('runtime', 'driver') and run in (select run from fitting) group by run, name
),
shares as (
    select
        run, name, calls, dur_ns, dur_ns / nullif(sum(dur_ns) over (partition by run), 0) as share,
        regexp_matches(name, '^(cuda|cu)(Malloc|Mem(Alloc|cpy|set)|Launch|GraphLaunch)') as is_work
    from calls
    qualify row_number() over (partition by run order by dur_ns desc, name) <= 12 or is_work
)
select
    'share of the calls'' time' as quantity,
    s.run,
    f.model,
    f.gpu as machine,
    f.batch_size,
    f.gpus,
    s.name as setting,
    'ratio' as unit,
    p.value as published,
    s.share as study,
    case when s.is_work then s.share end as corrected,
    s.calls || ' calls' as claim,
    p.place
from shares as s
join fitting as f using (run)
left join published as p on s.name = p.quantity and f.model = p.model and f.gpu like '%' || p.machine || '%'
union all by name
select
    'kernels' as quantity,
    f.run,
    f.model,
    f.gpu as machine,
    f.batch_size,
    f.gpus,
    'count' as unit,
    (select count(*) from kernels as k where k.run = f.run) as corrected,
    (select any_value(message) from diagnostics as d where d.run = f.run and d.code = 'no_kernels') as claim
from fitting as f
order by quantity, run, study desc, setting;

with logs as (
    select
        s.run,
        coalesce(sum(s.corrected), 0) as work,
        sum(s.study) filter (regexp_matches(s.setting, '(?i)device|init|version|getproc')) as querying,
        arg_max(s.setting, s.study) as first,
        max(s.study) as most,
        any_value(k.corrected) as kernels
    from cells as s
    join cells as k on s.run = k.run and k.quantity = 'kernels'
    where s.quantity <> 'kernels'
    group by s.run
)
select
    printf('%d of %d runs at hand recorded the start of the process alone: no kernel, and no call that allocates, copies or launches',
        count(*) filter (kernels = 0 and work = 0 and querying > 0.5), count(*))
    || coalesce(printf(' (%.1f %% of the calls'' time is %s)',
        100 * max(most) filter (kernels = 0 and work = 0 and querying > 0.5),
        any_value(first) filter (kernels = 0 and work = 0 and querying > 0.5)), '') || '.' as verdict
from logs
