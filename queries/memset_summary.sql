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
with sets as (
    select run, source, rank, device, start_ns, end_ns, size_bytes,
        case when has_valid_interval(start_ns, end_ns) then dur_ns end as measured_ns
    from memsets
    where matches(run, $run) and matches(rank, $rank) and matches(device, $device)
),
activity as not materialized (
    select run, source, rank, device, kind, start_ns, end_ns
    from gpu_activity
    where matches(run, $run) and matches(rank, $rank) and matches(device, $device)
),
others as (
    select run, source, rank, device, start_ns, end_ns
    from unscoped_activity
    where kind <> 'memset' and matches(run, $run) and matches(rank, $rank) and matches(device, $device)
),
exposed as (
    select run, rank, device, sum(busy_ns) as busy_ns, sum(busy_ns - inside_ns) as exposed_ns
    from clip_to('sets', 'others')
    group by run, rank, device
),
sums as (
    select
        run, rank, device,
        count(*) as memsets,
        as_bigint(coalesce(sum(size_bytes), 0)) as size_bytes,
        as_bigint(coalesce(sum(measured_ns), 0)) as dur_ns
    from sets
    group by run, rank, device
)
select
    s.run, s.rank, s.device, s.memsets, s.size_bytes, s.dur_ns,
    zero_if_missing(e.run, as_bigint(e.busy_ns)) as busy_ns,
    zero_if_missing(e.run, as_bigint(e.exposed_ns)) as exposed_ns,
    zero_if_missing(w.run, w.window_ns) as window_ns
from sums as s
left join exposed as e on s.run = e.run and s.rank = e.rank and s.device is not distinct from e.device
left join scope_windows('activity') as w on s.run = w.run and s.rank = w.rank and s.device is not distinct from w.device
order by s.run, s.rank, s.device
