-- What prefill and decode of an inference server cost: tokens, latencies, GPU time, and the share of launching.
-- A row is one run, rank and phase of the steps that vLLM or SGLang marks: prefill (prompts alone), decode (further tokens
-- alone), mixed (both), and capture (of CUDA graphs). `serving_steps` lists each step. A GPU row belongs to the step that
-- launched it. A latency lasts from the start of a step's range to the later of its end and the end of its GPU work. A percentile is
-- the smallest latency that at least so many percent of the steps do not exceed.
-- /// query
-- title = "Phases of inference servers"
-- needs = ["annotations"]
-- show = ["run", "rank", "phase", "steps", "prefill_tokens", "decode_tokens", "latency_p50_ns", "rate_ns", "tokens_per_s"]
-- chart = { kind = "bars", x = "phase", y = ["latency_p50_ns", "latency_p99_ns"], by = "run" }
-- hints = [
--     { when = "not exists (from annotations where regexp_matches(name, '^(execute_.*_generation_|step\\[|capture_)') and matches(run, $run) and matches(rank, $rank))", text = "no step of an inference server is marked; profile vLLM or SGLang with their profiling endpoints (/start_profile, /stop_profile)", empty = true },
-- ]
-- [params]
-- common = ["run", "rank"]
-- [columns]
-- common = ["run", "rank"]
-- phase = "prefill, decode, mixed (both), capture, empty, or another mode of SGLang; draft, draft_extend, draft_extend_v2, draft_loop, verify and target_verify are speculative decoding of requests in decode."
-- steps = "Steps of the phase."
-- prefill_tokens = "Tokens of the prompts that they compute; a token of a prompt counts in each step that computes it."
-- decode_tokens = "Tokens that they compute of requests in decode: in speculative decoding drafted ones, accepted or not; NULL where the marks have none."
-- tokens = "prefill_tokens + decode_tokens; NULL where the marks have none."
-- mean_requests_per_step = "Requests in prefill and decode, the mean over the steps."
-- dur_ns = "Durations of the ranges on the CPU, added up."
-- latency_p50_ns = "Median latency of a step."
-- latency_p90_ns = "The latency that 90 % do not exceed."
-- latency_p99_ns = "The latency that 99 % do not exceed."
-- gpu_span_ns = "First start to last end of each step's GPU work, added up; NULL without any."
-- gpu_busy_ns = "Time in which at least one GPU row of a step ran, added up over the steps."
-- busy_ratio = "gpu_busy_ns / gpu_span_ns."
-- launch_ns = "Durations of the calls that launched kernels and graphs, added up."
-- launch_ratio = "launch_ns / dur_ns."
-- tokens_per_s = "tokens / rate_ns: while the phase works, so without the time between its steps."
-- rate_ns = "gpu_span_ns; without GPU work dur_ns."
-- [report]
-- section = "time"
-- order = 4
-- row = "phase[s]"
-- show_if = "steps > 0"
-- without = "no step of an inference server was marked: profile vLLM or SGLang with their profiling endpoints (/start_profile, /stop_profile)"
-- ok_text = "The GPU runs for at least 80 % of the time from first to last work of the steps of each phase."
-- unknown = "How busy the steps keep the GPU is not known: no GPU work was recorded."
-- [[report.findings]]
-- when = "phase <> 'capture' and busy_ratio < 0.8"
-- by = "gpu_span_ns - gpu_busy_ns"
-- text = "[{where}: ]in {steps} {phase} steps the GPU runs for {gpu_busy_ns of gpu_span_ns} of the time from first to last work."
-- advice = "It waits for launches: serve with CUDA graphs (for vLLM without --enforce-eager, for SGLang without --disable-cuda-graph), and capture the batch sizes that occur."
-- ///
select
    run, rank, phase,
    count(*) as steps,
    as_bigint(sum(prefill_tokens)) as prefill_tokens,
    as_bigint(sum(decode_tokens)) as decode_tokens,
    as_bigint(sum(prefill_tokens) + sum(decode_tokens)) as tokens,
    avg(prefill_requests::double + decode_requests) as mean_requests_per_step,
    as_bigint(sum(dur_ns)) as dur_ns,
    quantile_disc(latency_ns, 0.5) as latency_p50_ns,
    quantile_disc(latency_ns, 0.9) as latency_p90_ns,
    quantile_disc(latency_ns, 0.99) as latency_p99_ns,
    as_bigint(sum(gpu_span_ns)) as gpu_span_ns,
    as_bigint(sum(gpu_busy_ns)) as gpu_busy_ns,
    sum(gpu_busy_ns) / nullif(sum(gpu_span_ns), 0) as busy_ratio,
    as_bigint(sum(launch_ns)) as launch_ns,
    sum(launch_ns) / nullif(sum(dur_ns), 0) as launch_ratio,
    1e9 * (sum(prefill_tokens) + sum(decode_tokens)) / nullif(coalesce(sum(gpu_span_ns), sum(dur_ns)), 0) as tokens_per_s,
    as_bigint(coalesce(sum(gpu_span_ns), sum(dur_ns))) as rate_ns
from timed_serving_steps($run, $rank)
group by run, rank, phase
order by run, rank, phase
