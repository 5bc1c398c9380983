-- How long prompts wait for the first token of their answer, and for each further one.
-- A row is one run and rank of `tracelab collect train inference`, or of a workload with stages of the same names. The time to
-- the first token is a prefill; the time per output token is a decode, which adds a token to each answer of the batch.
-- A percentile is the smallest time that at least so many percent of them do not exceed. Where a profiler ran, its steps
-- count only if no others exist (`profiler_state`). Prompts do not queue: a server's requests wait for a place in a batch, too.
-- /// query
-- title = "Latency of inference"
-- needs = ["steps"]
-- subject = "training"
-- show = [
--     "run", "rank", "first_token_p50_ns", "first_token_p90_ns", "first_token_p99_ns", "token_p50_ns", "token_p90_ns",
--     "token_p99_ns", "tokens_per_s", "prefills",
-- ]
-- chart = { kind = "bars", x = "run", y = ["first_token_p50_ns", "first_token_p99_ns", "token_p50_ns", "token_p99_ns"], by = "rank" }
-- hints = [
--     { when = "not exists (from steps where phase in ('prefill', 'decode') and matches(run, $run) and matches(rank, $rank))", text = "no step of inference is recorded; collect one with a workload that generates", empty = true },
-- ]
-- [params]
-- common = ["run", "rank"]
-- [columns]
-- common = ["run", "rank"]
-- prefills = "Batches of prompts."
-- prompts = "Prompts of these batches."
-- first_token_p50_ns = "Median time to the first token."
-- first_token_p90_ns = "The time to the first token that 90 % do not exceed."
-- first_token_p99_ns = "The time to the first token that 99 % do not exceed."
-- decodes = "Decodes, each of one token of each answer."
-- output_tokens = "Tokens of all answers, the first ones included."
-- token_p50_ns = "Median time per output token."
-- token_p90_ns = "The time per output token that 90 % do not exceed."
-- token_p99_ns = "The time per output token that 99 % do not exceed."
-- busy_ns = "Durations of all prefills and decodes, added up."
-- tokens_per_s = "output_tokens / busy_ns, in tokens a second."
-- profiler_state = "The profiler meanwhile: off, attached or recording."
-- ///
with stages as (
    select *, case profiler_state when 'recording' then 2 when 'attached' then 1 else 0 end as disturbance
    from steps
    where phase in ('prefill', 'decode') and matches(run, $run) and matches(rank, $rank) and has_valid_interval(start_ns, end_ns)
),
counted as (
    select * from stages qualify disturbance = min(disturbance) over (partition by run, rank)
)
select
    run, rank,
    count(*) filter (phase = 'prefill') as prefills,
    as_bigint(sum(samples) filter (phase = 'prefill')) as prompts,
    quantile_disc(dur_ns, 0.5) filter (phase = 'prefill') as first_token_p50_ns,
    quantile_disc(dur_ns, 0.9) filter (phase = 'prefill') as first_token_p90_ns,
    quantile_disc(dur_ns, 0.99) filter (phase = 'prefill') as first_token_p99_ns,
    count(*) filter (phase = 'decode') as decodes,
    as_bigint(sum(samples)) as output_tokens,
    quantile_disc(dur_ns, 0.5) filter (phase = 'decode') as token_p50_ns,
    quantile_disc(dur_ns, 0.9) filter (phase = 'decode') as token_p90_ns,
    quantile_disc(dur_ns, 0.99) filter (phase = 'decode') as token_p99_ns,
    as_bigint(sum(dur_ns)) as busy_ns,
    1e9 * sum(samples) / nullif(sum(dur_ns), 0) as tokens_per_s,
    any_value(profiler_state) as profiler_state
from counted
group by run, rank
order by run, rank
