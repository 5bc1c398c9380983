-- The profiler was switched on before the backward pass and off after the step. Kernels run later than they are
-- launched: those of the forward pass may still run in the window, and those of the backward pass behind it. A kernel
-- belongs to the range in which its launch lies.
-- /// study
-- title = "Only the backward pass"
-- study = "time of kernels that run while the range is open"
-- corrected = "time of kernels whose launch lies in the range"
-- fits = "annotations and kernels and run in (select run from annotations where scope = 'cpu' and regexp_matches(name, '(?i)backward|zero_grad|optimizer'))"
-- capture = "tracelab collect sweep S3 --match '*window-backward*'"
-- example = ["generated/generated-4rank-ddp"]
-- chart = { x = "setting" }
-- [answers]
-- ranges = { query = "annotation_gpu_time" }
-- ///
with open_ranges as (
    select distinct a.run, a.source, a.rank, k.device, a.start_ns, a.end_ns, a.name as part
    from annotations as a
    join (select distinct run, source, rank, device from kernels) as k on a.run = k.run and a.source = k.source
        and a.rank = k.rank
    where a.scope = 'cpu' and a.run in (select run from fitting)
        and regexp_matches(a.name, '(?i)backward|zero_grad|optimizer')
),
executions as (
    select run, source, rank, device, start_ns, end_ns from kernels where run in (select run from fitting)
),
during as (
    select run, part, sum(inside_ns) as dur_ns from clip_to('open_ranges', 'executions') group by run, part
),
launched as (
    select run, annotation, sum(gpu_ns) as gpu_ns
    from ranges where regexp_matches(annotation, '(?i)backward|zero_grad|optimizer') group by all
)
select
    'GPU time of the range' as quantity,
    l.run,
    f.model,
    f.gpu as machine,
    f.batch_size,
    f.gpus,
    l.annotation as setting,
    'ns' as unit,
    d.dur_ns as study,
    l.gpu_ns as corrected,
    any_value(p.claim) as claim,
    any_value(p.place) as place
from launched as l
join fitting as f using (run)
left join during as d on l.run = d.run and l.annotation = d.part
left join published as p on true
group by all
order by f.model, f.batch_size, l.run, l.annotation;

select string_agg(sentence, '; ' order by sentence) || '.' as verdict
from (
    select printf('%s: what runs while it is open takes %.3g ms, what it launched %.3g ms', setting, sum(study) / 1e6,
        sum(corrected) / 1e6) as sentence from cells group by setting
)
