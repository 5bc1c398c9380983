-- Recordings that mark no steps.
-- A row is one run and rank with ops or GPU activity and no range named like a step (ProfilerStep#3, step 3). Queries
-- by step (step_breakdown, data_loader_wait) return nothing from its trace. What vLLM and SGLang mark is in serving_steps.
-- /// check
-- title = "No steps marked"
-- severity = "info"
-- how_to_fix = "Pass a schedule to torch.profiler.profile and call prof.step() after each step (without a schedule it marks nothing), or mark it: record_function(f'step {n}'), nvtx.range(f'step {n}'); match other range names with --step-name."
-- ///
with work as (
    select run, rank, count(*) as events from gpu_activity group by run, rank
    union all
    select run, rank, count(*) from ops group by run, rank
),
marked as (
    select run, rank from step_ranges('annotations', '(?i)^(profiler)?step\s*#?\s*\d+$')
    union
    select run, rank from serving_steps('annotations')
)
select
    run,
    rank,
    sum(events)::bigint as count,
    format('{}, and no range marks a step.', count_phrase(sum(events), 'op or GPU event', 'ops and GPU events')) as message
from work
anti join marked using (run, rank)
group by run, rank
order by run, rank
