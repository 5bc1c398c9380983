-- A profiler's own summary, where only that was recorded: the table that nvprof prints at the end of a run, its
-- metrics and events in sum, the averages of torch's profiler.
-- A row is one line of such a summary, as the profiler counted it. Shares are of the summary's own kind: nvprof's are of all
-- GPUs of the process together, and calls of a driver that a runtime call makes count in both. Times of other kinds hold
-- each other, so they have no share. `device` is NULL where a summary is of no single one. Where single events were
-- recorded, kernel_summary and api_summary have more detail.
-- /// query
-- title = "Profiler summary"
-- needs = ["summaries"]
-- subject = "recordings"
-- show = ["run", "rank", "kind", "name", "calls", "dur_ns", "of_kind_sum_ratio", "mean_ns"]
-- chart = { kind = "bars", x = "name", y = ["dur_ns"], by = "kind" }
-- [params]
-- common = ["run", "rank", "device"]
-- kind = { type = "text", about = "only this kind: gpu_activities, api_calls, metrics, events, key_averages …" }
-- [columns]
-- common = ["run", "rank", "device"]
-- kind = "Which summary: gpu_activities, api_calls, metrics, events, key_averages …"
-- name = "What is counted: a kernel, a copy, a call, an op."
-- calls = "Calls, or launches."
-- dur_ns = "common"
-- mean_ns = "Mean duration from the profiler, rounded to whole ns."
-- min_ns = "common"
-- max_ns = "common"
-- kind_sum_ns = "Durations of all rows of the kind, of this source and rank, added up; NULL of kinds whose times hold each other."
-- of_kind_sum_ratio = "dur_ns / kind_sum_ns."
-- metric = "Metric or event that was counted."
-- value = "Its mean over the launches."
-- min_value = "Its least value."
-- max_value = "Its largest value."
-- unit = "Unit of the values."
-- device_name = "common"
-- input_shapes = "Shapes of an op's inputs."
-- flop = "Floating-point operations, where the profiler estimates them."
-- ///
with selected as (
    select *, kind in ('gpu_activities', 'api_calls') as is_plain
    from summaries
    where matches(run, $run) and matches(rank, $rank) and matches(device, $device) and matches(kind, $kind)
),
sums as (
    select run, source, rank, kind, sum(dur_ns) as kind_sum_ns
    from selected
    where is_plain
    group by run, source, rank, kind
)
select
    a.run, a.rank, a.device, a.kind, a.name, a.calls, a.dur_ns,
    as_bigint(round(a.mean_ns)) as mean_ns,
    a.min_ns, a.max_ns,
    as_bigint(s.kind_sum_ns) as kind_sum_ns,
    a.dur_ns / nullif(s.kind_sum_ns, 0) as of_kind_sum_ratio,
    a.metric, a.value, a.min_value, a.max_value, a.unit, a.device_name,
    a.input_shapes,
    as_bigint(round(a.flop)) as flop
from selected as a
left join sums as s using (run, source, rank, kind)
order by a.run, a.rank, a.kind, a.dur_ns desc nulls last, a.device, a.name, a.metric, a.source
