-- How long memsets take, and how much of that nothing hides.
-- A row is one run, rank and device. Durations add up over memsets that run at once, `busy_ns` does not; `exposed_ns` is the
-- part of that in which no kernel, no copy and no whole graph runs.
-- /// query
-- title = "Memsets"
-- needs = ["memsets"]
-- show = ["run", "rank", "device", "memsets", "dur_ns", "busy_ns", "exposed_ns", "window_ns"]
-- chart = { kind = "bars", x = "rank", y = ["busy_ns", "exposed_ns"], by = "run" }
-- [params]
-- common = ["run", "rank", "device"]
-- [columns]
-- common = ["run", "rank", "device"]
-- memsets = "Memsets."
-- size_bytes = "Bytes of the memsets of known size."
-- dur_ns = "common"
-- busy_ns = "Time in which at least one of them ran."
-- exposed_ns = "The part of busy_ns in which no kernel, copy or whole graph of the device ran."
-- window_ns = "common"
-- [report]
-- section = "copies"
-- order = 4
-- row = "GPU[s]"
-- ok_text = "Memsets take at most 2 % of the window of every GPU while it runs no kernel and no copy."
-- unknown = "How much time memsets take is not known: none has a time that is known."
-- [[report.findings]]
-- when = "exposed_ns > 0.02 * nullif(window_ns, 0)"
-- by = "exposed_ns"
-- cost = { ns = "exposed_ns", adds = true, topics = ["copies"], detail = 2 }
-- what_if = { change = "scale", class = "memset", factor = 0, without = "With memsets that take no time" }
-- text = "[{where}: ]memsets take {exposed_ns of window_ns} of the window while the GPU runs no kernel and no copy."
-- every = "{where}: memsets take {exposed_ns of window_ns} of the windows while the GPU runs no kernel and no copy."
-- advice = "Set fewer buffers to 0: `zero_grad(set_to_none=True)`, and `torch.empty` in place of `torch.zeros` for what is written anyway."
-- ///
select
    run, rank, device, memsets, size_bytes, dur_ns, busy_ns, exposed_ns, window_ns
from memset_times
where matches(run, $run) and matches(rank, $rank) and matches(device, $device)
order by run, rank, device
