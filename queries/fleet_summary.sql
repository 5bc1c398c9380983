-- What each run of a store was and did: host, program, ranks, step time, where GPU time went, and what is conspicuous.
-- A row is one run, the latest first. It reads rollups: a few rows a run that the store keeps, computed anew only where the
-- sources of a run change. Step times are the median over ranks of each rank's median; the ratios are of all windows of its
-- devices, added up, so that a nanosecond counts once: compute, exposed communication, exposed copies, idle.
-- `notes` names what exceeds the thresholds of the report's findings: idle over 20 % of the windows, exposed communication or
-- copies over 10 %, waiting for stragglers over 20 % of the time of collectives, and files that lost events.
-- /// query
-- title = "Runs of a fleet"
-- needs = ["sources"]
-- show = ["run", "began_at", "host", "ranks", "step_ns", "idle_ratio", "exposed_comm_ratio", "notes"]
-- [params]
-- common = ["run"]
-- step_name = "common"
-- [columns]
-- common = ["run"]
-- began_at = "When it began, in UTC."
-- host = "Its hosts; of more than three the first and how many more."
-- gpu = "Its GPUs, each model once."
-- program = "Program, else workload, and model, where recorded."
-- ranks = "Ranks with rows of GPUs, steps or collectives."
-- gpus = "Devices with GPU activity."
-- steps = "Steps of the rank with most."
-- step_ns = "Median over the ranks of the median length of a step, rounded down."
-- samples_per_s = "Samples a second, where the run wrote them down."
-- window_ns = "First start to last end of each device's activity, added up."
-- compute_ns = "common"
-- compute_ratio = "compute_ns / window_ns."
-- exposed_comm_ns = "common"
-- exposed_comm_ratio = "exposed_comm_ns / window_ns."
-- exposed_memory_ns = "common"
-- exposed_memory_ratio = "exposed_memory_ns / window_ns."
-- idle_ns = "common"
-- idle_ratio = "idle_ns / window_ns."
-- collective_ns = "Durations of matched collectives, added up over the ranks."
-- wait_ns = "The part in which ranks waited for the last one."
-- wait_ratio = "wait_ns / collective_ns."
-- straggler = "The rank that the others wait for longest."
-- caused_wait_ns = "How long, added up over the others."
-- status = "How the run ended, where it was recorded."
-- files = "Files of the run."
-- events_skipped = "Events of these that could not be read."
-- notes = "What exceeds a threshold; NULL for nothing."
-- [report]
-- section = "fleet"
-- order = 3
-- row = "run[s]"
-- ok_text = "No run exceeds a threshold of idle time, exposed time, waiting or lost events."
-- unknown = "Whether a run is conspicuous is not known: none has GPU activity."
-- [[report.findings]]
-- when = "idle_ns > 0.2 * nullif(window_ns, 0)"
-- by = "idle_ns"
-- most = 3
-- text = "{run}: its GPUs are idle for {idle_ns of window_ns} of their windows."
-- advice = "Run idle_causes on {run}: launches, data loading, or synchronization."
-- [[report.findings]]
-- when = "case when collective_ns > 0 then wait_ns > 0.2 * collective_ns when window_ns > 0 then false end"
-- by = "wait_ns"
-- most = 3
-- text = "{run}: {wait_ns of collective_ns} of its collectives is waiting[, most for rank {straggler}]."
-- advice = "Run straggler_causes on {run}: why its last rank is late."
-- ///
with figures as (
    from fleet_runs('rollup_runs', 'rollup_ranks')
    where matches(run, $run) and $step_name is not null
),
noted as (
    select
        run,
        nullif(concat_ws(
            ', ',
            case when idle_ns > 0.2 * window_ns then 'idle' end,
            case when exposed_comm_ns > 0.1 * window_ns then 'exposed communication' end,
            case when exposed_memory_ns > 0.1 * window_ns then 'exposed copies' end,
            case when wait_ns > 0.2 * collective_ns then 'stragglers' end,
            case when incomplete > 0 or events_skipped > 0 then 'lost events' end,
            case when status <> 'ok' then concat('status ', status) end
        ), '') as notes
    from figures
)
select
    f.run,
    strftime(f.began_at at time zone 'UTC', '%Y-%m-%d %H:%M:%S') as began_at,
    f.host, f.gpu,
    nullif(concat_ws(' ', f.program, f.model), '') as program,
    f.ranks, f.gpus, f.steps, f.step_ns, f.samples_per_s, f.window_ns, f.compute_ns,
    f.compute_ns / nullif(f.window_ns, 0) as compute_ratio,
    f.exposed_comm_ns,
    f.exposed_comm_ns / nullif(f.window_ns, 0) as exposed_comm_ratio,
    f.exposed_memory_ns,
    f.exposed_memory_ns / nullif(f.window_ns, 0) as exposed_memory_ratio,
    f.idle_ns,
    f.idle_ns / nullif(f.window_ns, 0) as idle_ratio,
    f.collective_ns, f.wait_ns,
    f.wait_ns / nullif(f.collective_ns, 0) as wait_ratio,
    f.straggler::bigint as straggler,
    f.caused_wait_ns, f.status, f.files, f.events_skipped, n.notes
from figures as f
join noted as n on f.run = n.run
order by f.began_at desc nulls last, f.run
