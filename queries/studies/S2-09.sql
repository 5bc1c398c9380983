-- A collective waits for its partners, and ncu runs one kernel at a time: profiled, it hangs. To count on two GPUs,
-- leave communication out, or profile one rank.
-- /// study
-- title = "Counters on two GPUs"
-- study = "launches profiled"
-- corrected = "launches of communication among them; 0 is right"
-- fits = "kernel_metrics"
-- capture = "tracelab collect sweep S2 --match '*profiler-ncu*'"
-- example = ["generated/ncu-forward"]
-- ///
with launches as (
    select distinct m.run, m.launch, m.rank, m.device, m.kernel as name
    from kernel_metrics as m
    where m.run in (select run from fitting)
)
select
    'launches' as quantity,
    l.run,
    f.model,
    f.gpu as machine,
    count(distinct (l.rank, l.device)) as gpus,
    'count' as unit,
    count(*) as study,
    count(*) filter (c.class = 'communication') as corrected
from launches as l
join fitting as f using (run)
join classify('launches') as c on l.name = c.name
group by all
order by l.run;

select case
    when sum(corrected) = 0 then printf(
        'Of %d profiled launches on at most %d GPU(s) none communicates: nothing could hang.', sum(study)::bigint,
        max(gpus))
    else printf('%d of %d profiled launches communicate: their times hold the waiting for partners that ncu held back.',
        sum(corrected)::bigint, sum(study)::bigint)
end as verdict
from cells
