-- What queries over many runs have in common: facts of a run for its rollup, its figures, its place in a series.

-- run_facts(wanted): the settings of runs that their rollups have, and the time at which each began, where it is recorded.
create or replace macro run_facts(wanted) as table
select
    run, started_at, host, gpu, gpus, world_size, global_batch_size, precision, parallelism, git_commit, status,
    coalesce(program, workload) as program,
    model
from runs
where matches(run, wanted);

-- source_files(wanted): the files of each run, and the first time in them: by windows and kernels on a clock that counts from
-- 1970.
create or replace macro source_files(wanted) as table
with _starts as (
    select run, source, min(start_ns) as start_ns
    from kernels
    where matches(run, wanted) and has_valid_interval(start_ns, end_ns)
    group by run, source
)
select
    s.run,
    count(*) as files,
    as_bigint(sum(s.events_skipped)) as events_skipped,
    count(*) filter (not s.complete) as incomplete,
    min(least(s.window_start_ns, k.start_ns)) filter (s.clock = 'unix') as start_ns
from sources as s
left join _starts as k on s.run = k.run and s.source = k.source
where matches(s.run, wanted)
group by s.run;

-- fleet_runs(of_runs, of_ranks): the figures of each run of the relations rollup_runs and rollup_ranks, over its ranks. Times of
-- a step are medians over the ranks. `gpus` counts devices with a window; the ratios are those of their windows, added up.
create or replace macro fleet_runs(of_runs, of_ranks) as table
with _sums as (
    select
        run,
        count(distinct rank) as ranks,
        count(window_ns) as gpus,
        max(devices) as gpus_of_rank,
        max(steps) as steps,
        as_bigint(floor(median(step_ns))) as step_ns,
        as_bigint(floor(median(step_compute_ns))) as step_compute_ns,
        as_bigint(sum(window_ns)) as window_ns,
        as_bigint(sum(compute_ns)) as compute_ns,
        as_bigint(sum(exposed_comm_ns)) as exposed_comm_ns,
        as_bigint(sum(exposed_memory_ns)) as exposed_memory_ns,
        as_bigint(sum(idle_ns)) as idle_ns,
        as_bigint(sum(collective_ns)) as collective_ns,
        as_bigint(sum(wait_ns)) as wait_ns,
        as_bigint(sum(exposed_wait_ns)) as exposed_wait_ns,
        arg_max(rank, (caused_wait_ns, -rank)) filter (caused_wait_ns > 0) as straggler,
        as_bigint(max(caused_wait_ns)) as caused_wait_ns
    from (select *, count(window_ns) over (partition by run, rank) as devices from query_table(of_ranks))
    group by run
)
select
    r.run, r.began_at, r.began_from, r.host, r.hosts, r.gpu, r.used_gpus, r.program, r.model, r.world_size, r.global_batch_size, r.precision,
    r.parallelism, r.git_commit, r.status, r.files, r.events_skipped, r.incomplete, r.samples_per_s,
    coalesce(s.ranks, 0) as ranks,
    coalesce(s.gpus, 0) as gpus,
    s.gpus_of_rank,
    s.steps, s.step_ns, s.step_compute_ns, s.window_ns, s.compute_ns, s.exposed_comm_ns, s.exposed_memory_ns, s.idle_ns,
    s.collective_ns, s.wait_ns, s.exposed_wait_ns, s.straggler, s.caused_wait_ns
from query_table(of_runs) as r
left join _sums as s on r.run = s.run;

-- run_points(of_runs, of_ranks, metric, pattern): the value of a metric of each run that has it, and the series that the run
-- belongs to: what the regular expression `pattern` finds in its name; without one the settings that change what a step takes.
-- How many GPUs a run uses is that of its settings, else the most devices of a rank with GPU activity, times the ranks: a rank
-- whose trace is missing changes no series.
create or replace macro run_points(of_runs, of_ranks, metric, pattern) as table
select
    run, began_at, began_from, git_commit,
    case
        when pattern is not null then nullif(regexp_extract(run, pattern), '')
        else coalesce(
            nullif(
                concat_ws(
                    ' · ', program, model,
                    world_size || if(world_size = 1, ' rank', ' ranks'),
                    coalesce(used_gpus || ' × ' || gpu, gpu, used_gpus || if(used_gpus = 1, ' GPU', ' GPUs')),
                    'batch ' || global_batch_size, precision, parallelism
                ),
                ''
            ),
            'settings not recorded'
        )
    end as series,
    (case metric
        when 'step_ns' then step_ns
        when 'step_compute_ns' then step_compute_ns
        when 'samples_per_s' then samples_per_s
        when 'compute_ratio' then compute_ns / nullif(window_ns, 0)
        when 'exposed_comm_ratio' then exposed_comm_ns / nullif(window_ns, 0)
        when 'idle_ratio' then idle_ns / nullif(window_ns, 0)
        when 'wait_ratio' then wait_ns / nullif(collective_ns, 0)
    end)::double as value
from (
    select * replace (coalesce(nullif(used_gpus, 0), nullif(coalesce(world_size, ranks) * gpus_of_rank, 0)) as used_gpus)
    from fleet_runs(of_runs, of_ranks)
)
order by began_at nulls last, run;

-- sign_test(wins, trials): the probability of so many wins or more where each trial is won with probability 1/2; NULL without
-- trials.
create or replace macro sign_test(wins, trials) as
    case
        when trials > 0 then least(1, list_sum(list_transform(
            range(wins, trials + 1),
            lambda each: exp(lgamma(trials + 1) - lgamma(each + 1) - lgamma(trials - each + 1) - trials * ln(2))
        )))
    end;
