-- Cells of a sweep by status.
-- A row is one sweep; runs that no sweep began are the row without one. `runs` are the cells with their repeats, and the
-- counts by status add up to it; `unknown` are runs with only a trace. `expected` is what the sweep's own
-- record planned to run; `missing` of these were never ingested.
-- /// query
-- title = "Status of sweeps"
-- needs = ["runs"]
-- show = ["sweep", "runs", "ok", "oom", "timeout", "failed", "unknown", "ok_ratio"]
-- chart = { kind = "stacked", x = "sweep", y = ["ok", "timeout", "profiler", "failed", "not_run", "oom", "unknown"] }
-- [params]
-- common = ["sweep"]
-- [columns]
-- sweep = "The sweep."
-- runs = "Cells, each repeat counted."
-- ok = "Runs that ended well."
-- oom = "Runs that ran out of memory."
-- timeout = "Runs that the time limit ended."
-- failed = "Runs that failed for another reason."
-- profiler = "Runs whose profiler failed: profiler_error, no_kernels or permission_denied."
-- not_run = "Runs that never began, or never came to their end."
-- unknown = "Runs without a status."
-- ok_ratio = "ok / runs."
-- expected = "Runs that the record of the sweep lists; NULL where it was not beside them."
-- missing = "Of these, runs that are not in the store."
-- [report]
-- section = "sweeps"
-- order = 1
-- show_if = "common"
-- ok_text = "Every run of a sweep that has a status ended well."
-- unknown = "How the runs of the sweeps ended is not known: none has a status."
-- [[report.findings]]
-- when = "case when sweep is not null then ok < nullif(runs - unknown, 0) end"
-- by = "runs - unknown - ok"
-- each = "sweep"
-- most = 3
-- text = "{sweep}: {ok} of {runs} runs ended well."
-- advice = "See the cells below for which did not, and why: what ran out of memory, failed or never ran has no speed to compare."
-- [[report.findings]]
-- when = "case when sweep is not null then coalesce(missing, 0) > 0 end"
-- by = "missing"
-- each = "sweep"
-- most = 3
-- text = "{sweep}: {missing} of {expected} runs are not in the store."
-- advice = "Ingest the folder of the whole sweep, or run the cells that are missing."
-- ///
with counts as (
    select
        sweep,
        count(*) as runs,
        count(*) filter (status = 'ok') as ok,
        count(*) filter (status = 'oom') as oom,
        count(*) filter (status = 'timeout') as timeout,
        count(*) filter (status in ('profiler_error', 'no_kernels', 'permission_denied')) as profiler,
        count(*) filter (status = 'not_run') as not_run,
        count(*) filter (status is null) as unknown,
        max(try_cast(tags['sweep.cells'] as bigint)) as expected
    from runs
    where matches(sweep, $sweep)
    group by sweep
)
select
    sweep, runs, ok, oom, timeout,
    runs - ok - oom - timeout - profiler - not_run - unknown as failed,
    profiler, not_run, unknown,
    ok / runs as ok_ratio,
    expected,
    case when expected >= runs then expected - runs when expected < runs then 0 end as missing
from counts
order by sweep
