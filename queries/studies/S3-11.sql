-- A launch takes long where the queue is full: the call then waits for the GPU. Time spent launching shows neither the
-- GPU's work nor the calls' cost; the number, the mean, the longest of a hundred and the queue's depth distinguish the
-- two. The study's window is the backward pass; a share of another window (`--window` of the collector; without one a
-- whole recording) is no share of that one, so each window is listed by itself, and other calls by name.
-- /// study
-- title = "Share of launch calls"
-- study = "time of launch calls / time of all API calls"
-- corrected = "launches of a step, the mean time of one and its 99th percentile, and the other calls by name"
-- fits = "api_calls"
-- capture = "tracelab collect sweep S3 --match '*window-backward*'"
-- example = ["generated/sweeps/generated-shares"]
-- chart = { kind = "line", x = "batch_size" }
-- [answers]
-- shares = { query = "sweep_shares", by_call = true }
-- queues = { query = "launch_latency" }
-- ///
with windows as (
    select
        run,
        gpu,
        gpus,
        concat_ws(', ',
            layout_of(case when gpus > 0 then 'gpu' when gpus = 0 then 'cpu' end,
                case when gpus > 0 then gpus else world_size end, parallelism),
            coalesce('window ' || tags['window'], 'whole recording')) as setting
    from fitting
),
parts as (
    select s.*, w.gpu as machine, w.gpus, w.setting
    from shares as s join windows as w using (run) where s.of_api_sum_ratio is not null
),
launches as (
    select * from parts where share = 'launch'
),
others as (  -- the two that take most of what is left
    select * from parts
    where share <> 'launch' and not regexp_matches(share, '^(cuda|cu|hip)(Launch|GraphLaunch|ModuleLaunch)')
        and dur_ns > 0
    qualify row_number() over (partition by run order by dur_ns desc, share) <= 2
),
longest as (
    select run, quantile_disc(dur_ns, 0.99) as dur_ns
    from api_calls
    where run in (select run from fitting) and api in ('runtime', 'driver') and has_valid_interval(start_ns, end_ns)
        and regexp_matches(name, '^(cuda|cu|hip)(Launch|GraphLaunch|ModuleLaunch)')
    group by run
)
select
    'share of the calls'' time' as quantity,
    null as run,
    model,
    machine,
    batch_size,
    gpus,
    'the study' as setting,
    unit,
    value as published,
    null::double as study,
    null::double as corrected,
    claim,
    place
from published
union all by name
select
    'share of the calls'' time' as quantity,
    run,
    model,
    machine,
    batch_size,
    gpus,
    setting,
    'ratio' as unit,
    of_api_sum_ratio as study,
    printf('%d launches', calls) as claim
from launches
union all by name
select
    'share of another call' as quantity,
    run,
    model,
    machine,
    batch_size,
    gpus,
    concat_ws(', ', setting, share) as setting,
    'ratio' as unit,
    of_api_sum_ratio as corrected,
    printf('%d calls', calls) as claim
from others
union all by name
select
    'launches of a step' as quantity,
    run,
    model,
    machine,
    batch_size,
    gpus,
    setting,
    'count' as unit,
    calls_per_step as corrected
from launches where calls_per_step is not null
union all by name
select
    'time of a launch' as quantity,
    run,
    model,
    machine,
    batch_size,
    gpus,
    setting || ', mean' as setting,
    'ns' as unit,
    dur_ns / nullif(calls, 0) as corrected
from launches where calls > 0
union all by name
select
    'time of a launch' as quantity,
    l.run,
    l.model,
    l.machine,
    l.batch_size,
    l.gpus,
    l.setting || ', 99th percentile' as setting,
    'ns' as unit,
    p.dur_ns as corrected
from launches as l join longest as p using (run)
union all by name
select
    'launches waiting at once' as quantity,
    q.run,
    l.model,
    l.machine,
    l.batch_size,
    l.gpus,
    l.setting,
    'count' as unit,
    max(q.max_queue_depth) as corrected
from queues as q join launches as l using (run) group by q.run, l.model, l.machine, l.batch_size, l.gpus, l.setting
order by all;

with of_runs as (
    select
        run, regexp_extract(any_value(setting), '(window \w+|whole recording)') as recorded,
        max(study) as share,
        max(corrected) filter (setting like '%, mean') as mean_ns,
        max(corrected) filter (setting like '%, 99th percentile') as longest_ns,
        max(corrected) filter (quantity = 'launches waiting at once') as waiting,
        arg_max(string_split(setting, ', ')[-1], corrected) filter (quantity = 'share of another call') as other
    from cells
    where run is not null
    group by run
),
of_windows as (
    select
        recorded,
        count(*) as runs,
        min(share) as least,
        max(share) as most,
        min(mean_ns) as least_ns,
        max(mean_ns) as most_ns,
        max(longest_ns) as longest_ns,
        max(waiting) as waiting,
        mode(other) as other
    from of_runs
    group by recorded
)
select
    string_agg(printf('%d run%s of the %s: launch calls take %s %% of the calls'' time', runs,
        case runs when 1 then '' else 's' end, recorded, format_range(100 * least, 100 * most))
        || coalesce(printf(', %s µs each on average, 99 of 100 at most %.3g µs',
            format_range(least_ns / 1e3, most_ns / 1e3), longest_ns / 1e3), '')
        || coalesce(printf(', up to %d wait at once', waiting::bigint), '')
        || coalesce(printf('; most of the rest is %s', other), ''),
        '. ' order by recorded <> 'window backward', recorded) || '.' as verdict
from of_windows
