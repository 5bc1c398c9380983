-- A metric over runs in the order of time, and where its level changes.
-- A row is one run that has the metric. Runs of one series are compared: those with the same program, model, ranks, GPUs and
-- their number, batch, precision and parallelism, or those in whose names a regular expression finds the same text. A series is split where its
-- level changes most: of all splits with at least three runs on each side the one with the largest standardized Mann-Whitney
-- statistic (the change-point model of Hawkins and Deng, 2010). The split counts if its statistic is as large in at most
-- `alpha` of 1,999 random orders of the same values (a permutation test), and each part is tested in the same way (binary
-- segmentation). In a series without change that is a false alarm with a probability of at most `alpha`; with k changes at
-- most (2k + 1) alpha are expected. The bound needs values that could as well be in another order: a slow drift is reported as
-- one or more changes. To find one at `alpha` = 0.01 takes 5 runs on each side, or 4 after 10 or more.
-- /// query
-- title = "History of runs"
-- needs = ["sources"]
-- show = ["run", "began_at", "value", "level_value", "previous_value", "change_ratio", "chance", "series"]
-- chart = { kind = "line", x = "place", y = ["value"], by = "series" }
-- [params]
-- common = ["run"]
-- metric = { default = "step_ns", choices = ["step_ns", "step_compute_ns", "samples_per_s", "compute_ratio", "exposed_comm_ratio", "idle_ratio", "wait_ratio"], about = "the metric of fleet_summary" }
-- series_name = { type = "text", example = "^[a-z]+", about = "runs in whose names this regular expression finds the same text are one series" }
-- alpha = { default = 0.01, about = "a change counts if its chance is at most this" }
-- changes_only = { default = false, about = "only the runs at which the level changes" }
-- step_name = "common"
-- [columns]
-- common = ["run"]
-- series = "What the runs that are compared have in common."
-- place = "Place of the run in its series, in the order of time."
-- began_at = "When it began, in UTC; runs of which that is not known are last, by name."
-- git_commit = "Commit, where it was recorded."
-- value = "The metric, in `unit`."
-- segment = "Number of the stretch between two changes, from 1."
-- level_value = "Median of the stretch."
-- previous_value = "Of the first run of a stretch the level before it."
-- change_ratio = "change_value / previous_value."
-- chance = "Of the first run of a stretch the probability of such a split, or a better one, without a change."
-- change_value = "level_value less previous_value."
-- segment_runs = "Runs of the stretch."
-- unit = "Unit of the values: ns, ratio or samples/s."
-- [report]
-- section = "fleet"
-- order = 1
-- row = "run[s]"
-- ok_text = "No series changes its level."
-- unknown = "Whether step times change is not known: no run has steps."
-- [[report.findings]]
-- when = "chance is not null and change_value <> 0"
-- by = "abs(change_ratio)"
-- most = 5
-- text = "{series}: from {run} on the median step time changes by {change_ratio %} of what it was before."
-- advice = "Compare the runs before and after: tracelab compare, or run_difference."
-- ///
with points as (
    from run_points('rollup_runs', 'rollup_ranks', $metric, $series_name)
    where value is not null and series is not null and $step_name is not null
),
placed as (
    select
        p.run, p.series, s.place, p.began_at, p.git_commit, p.value, s.segment, s.chance,
        median(p.value) over (partition by p.series, s.segment) as level_value,
        count(*) over (partition by p.series, s.segment) as segment_runs
    from points as p
    join run_segments as s on p.run = s.run
),
followed as (
    select *, case when chance is not null then lag(level_value) over (partition by series order by place) end as previous_value
    from placed
)
select
    run, series, place,
    strftime(began_at at time zone 'UTC', '%Y-%m-%d %H:%M:%S') as began_at,
    git_commit, value, segment, level_value, previous_value,
    (level_value - previous_value) / nullif(previous_value, 0) as change_ratio,
    chance,
    level_value - previous_value as change_value,
    segment_runs,
    case when ends_with($metric, '_ns') then 'ns' when ends_with($metric, '_ratio') then 'ratio' else 'samples/s' end as unit
from followed
where matches(run, $run) and (chance <= $alpha or not $changes_only)
order by series, place
