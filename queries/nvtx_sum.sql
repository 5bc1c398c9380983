-- The annotated ranges of a run's threads as the report nvtx_sum of `nsys stats` sums them up.
-- A row is one run, style and range. Durations add up over threads and over ranges inside ranges; marks are no ranges.
-- A range that was never closed counts until the last annotation of its file, as nsys counts it. Ranges of
-- record_function and torch's profiler steps are push/pop ranges, and their projections onto a GPU are left out.
-- Behind `run` and `sum_ns` the columns are those of the report, in its order and with its titles and rounding, to be
-- compared with `nsys stats -r nvtx_sum -f csv`; all devices, processes and ranks of a run are one group, as there.
-- /// query
-- title = "NVTX ranges, as nsys stats sums them up"
-- needs = ["annotations"]
-- subject = "host"
-- show = ["run", "Time (%)", "Total Time (ns)", "Instances", "Avg (ns)", "Med (ns)", "Max (ns)", "Range"]
-- chart = { kind = "bars", x = "Range", y = ["Total Time (ns)"], by = "run" }
-- [params]
-- common = ["run", "rank"]
-- [columns]
-- run = "common"
-- sum_ns = "Durations of all ranges of the run, added up."
-- "Time (%)" = "common"
-- "Total Time (ns)" = "Durations of these ranges, added up."
-- common = ["Instances", "Avg (ns)", "Med (ns)", "Min (ns)", "Max (ns)", "StdDev (ns)"]
-- Style = "PushPop, or StartEnd for a range that may end on another thread."
-- Range = "Text of the range, behind its domain and a colon where it has one."
-- ///
with noted as (
    select
        run, source, rank, name, start_ns, end_ns,
        case when not regexp_full_match(domain, '\d+') then domain end as domain,  -- a number is a domain without a name
        try(args->>'style') as style
    from annotations
    where scope = 'cpu'
),
ends as (
    select run, source, max(coalesce(end_ns, start_ns)) as last_ns
    from noted
    group by run, source
),
closed as (
    select
        run, rank, style, domain, name, start_ns,
        coalesce(end_ns, case when style in ('push_pop', 'start_end') then last_ns end) as end_ns
    from noted
    join ends using (run, source)
    where style is distinct from 'mark' and matches(run, $run) and matches(rank, $rank)
),
listed as (
    select
        run, start_ns, end_ns,
        try(end_ns - start_ns) as dur_ns,
        {
            'style': case when style = 'start_end' then 'StartEnd' else 'PushPop' end,
            'text': coalesce(domain || ':', '') || coalesce(name, '')
        } as part
    from closed
)
select
    run, sum_ns,
    percent as "Time (%)",
    total_ns as "Total Time (ns)",
    instances as "Instances",
    avg_ns as "Avg (ns)",
    med_ns as "Med (ns)",
    min_ns as "Min (ns)",
    max_ns as "Max (ns)",
    deviation_ns as "StdDev (ns)",
    part.style as "Style",
    part.text as "Range"
from durations_by('listed')
order by run, "Total Time (ns)" desc, "Range", "Style"
