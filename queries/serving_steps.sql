-- Each step of an inference server: requests and tokens of prefill and decode, and what it costs on CPU and GPU.
-- A row is one run, rank and step that vLLM or SGLang marks, or a capture of a CUDA graph, which has no number. Of SGLang's own
-- mark, step[…], in an execute_… mark, SGLang's is the step: the other one also waits for the batch before. A GPU row
-- belongs to the step that launched it, from any thread of the process. `latency_ns` lasts from the start of the range to the
-- later of the ends of the range and of its GPU work: the range may end before the GPU does.
-- /// query
-- title = "Steps of inference servers"
-- needs = ["annotations"]
-- subject = "time"
-- show = ["run", "rank", "step", "phase", "tokens", "latency_ns", "gpu_span_ns", "launch_ratio"]
-- chart = { kind = "bars", x = "step", y = ["latency_ns", "gpu_span_ns"], by = "run" }
-- hints = [
--     { when = "not exists (from annotations where regexp_matches(name, '^(execute_.*_generation_|step\\[|capture_)') and matches(run, $run) and matches(rank, $rank))", text = "no step of an inference server is marked; profile vLLM or SGLang with their profiling endpoints (/start_profile, /stop_profile)", empty = true },
-- ]
-- [params]
-- common = ["run", "rank"]
-- [columns]
-- common = ["run", "rank"]
-- step = "Number of the step in its process, from 0; NULL of a capture."
-- phase = "prefill, decode, mixed (both), capture, empty, or another mode of SGLang; draft, draft_extend, draft_extend_v2, draft_loop, verify and target_verify are speculative decoding of requests in decode."
-- prefill_requests = "Requests whose prompts, or parts of them, it computes."
-- decode_requests = "Requests that get further tokens."
-- prefill_tokens = "Tokens of the prompts that it computes."
-- decode_tokens = "Tokens that it computes of requests in decode; NULL in speculative decoding where the mark has none."
-- tokens = "prefill_tokens + decode_tokens."
-- start_ns = "Start of its range, on the source's clock."
-- dur_ns = "Duration of its range on the CPU."
-- latency_ns = "Start of the range to the later of its end and the end of its GPU work."
-- gpu_rows = "Kernels, copies, memsets and whole graphs that it launched."
-- gpu_span_ns = "First start to last end of these."
-- gpu_busy_ns = "Time in which at least one of them ran."
-- busy_ratio = "gpu_busy_ns / gpu_span_ns."
-- launch_ns = "Durations of the calls that launched kernels and graphs, added up."
-- launch_ratio = "launch_ns / dur_ns."
-- tokens_per_s = "tokens / gpu_span_ns; without GPU work over dur_ns."
-- ///
select
    run, rank, step, phase, prefill_requests, decode_requests, prefill_tokens, decode_tokens,
    try(prefill_tokens + decode_tokens) as tokens,
    start_ns, dur_ns, latency_ns,
    coalesce(gpu_rows, 0) as gpu_rows,
    gpu_span_ns,
    as_bigint(gpu_busy_ns) as gpu_busy_ns,
    gpu_busy_ns / nullif(gpu_span_ns, 0) as busy_ratio,
    as_bigint(launch_ns) as launch_ns,
    launch_ns / nullif(dur_ns, 0) as launch_ratio,
    1e9 * (prefill_tokens::double + decode_tokens) / nullif(coalesce(gpu_span_ns, dur_ns), 0) as tokens_per_s
from timed_serving_steps($run, $rank)
order by run, rank, start_ns, step
