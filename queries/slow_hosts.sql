-- Which hosts or GPUs compute longer or come later than their peers, over all runs that they took part in.
-- A row is one host, or with `by` one GPU (by its UUID, else its host and rank), the most suspect first. In each run
-- with several, a host is compared with its peers. It is slower where the compute time of a step (without steps, of
-- the window), the median over its ranks, exceeds the median over all hosts of the run; it is late where its mean
-- lateness in a collective (stragglers) exceeds that median. If all hosts were alike, each would be slower, and late,
-- in at most half of its runs by chance: `chance` is the probability of so many runs or more (a sign test), which
-- assumes no distribution, and needs no more than that runs are independent. Among many hosts the smallest chance is
-- small by itself, so that `verdict` compares it times the number of hosts with 0.01: at most one store in a hundred
-- has a verdict of each kind by chance. Compare runs whose ranks do the same work: a pipeline's stages differ by
-- design.
-- /// query
-- title = "Slow hosts"
-- needs = ["sources"]
-- show = ["host", "gpu", "runs", "slower_runs", "compute_ratio", "late_runs", "persistence", "verdict"]
-- chart = { kind = "bars", x = "host", y = ["slower_runs", "late_runs"] }
-- hints = [
--     { when = "lacks_several_hosts($run)", text = "no run has ranks on several hosts that are known; record runs whose traces name their hosts", empty = true },
-- ]
-- [params]
-- common = ["run"]
-- by = { default = "host", choices = ["host", "gpu"], about = "what the rows are of" }
-- least_slower = { default = 0.02, about = "a slow host computes longer than its peers by this share or more" }
-- step_name = "common"
-- [columns]
-- host = "The host; NULL: ranks of hosts that are not recorded, which are not compared."
-- gpu = "UUID of the GPU, else its rank, of rows by GPU."
-- runs = "Runs in which its compute time is compared."
-- slower_runs = "Those in which it computes longer than the median."
-- own_compute_ns = "Its compute time of a step, the median over these runs, rounded down."
-- peer_compute_ns = "The medians of its peers, the median over these runs, rounded down."
-- compute_ratio = "own_compute_ns / peer_compute_ns."
-- chance = "Probability of slower_runs or more by chance."
-- collective_runs = "Runs in which its collectives are matched with those of others."
-- late_runs = "Those in which it enters them later than the median host, by the mean over collectives."
-- lateness_ns = "Its entries less the median entry of the other ranks, added up over runs and ranks."
-- collectives = "Collectives of its ranks."
-- times_last = "Those that it started last."
-- late_chance = "Probability of late_runs or more by chance."
-- longest_runs = "The most runs in a row in which it was slower or late."
-- persistence = "persistent: slower or late in two thirds of five runs or more; else changing, or never; too few runs: in fewer than five."
-- hosts = "Hosts or GPUs that are compared."
-- verdict = "slow, late, or both; neither; too few runs: neither could be found if it were so in all of them; not compared."
-- last_run = "The last of its runs."
-- uncompared_runs = "Runs in which it has no peer, or, of hosts that are not recorded, all runs."
-- [report]
-- section = "fleet"
-- order = 2
-- row = "host[s]"
-- show_if = "runs > 0 or collective_runs > 0"
-- without = "no run has ranks on several hosts that are known: record runs whose traces name their hosts"
-- ok_text = "No host is slower or later than its peers more often than chance explains."
-- unknown = "Whether a host is slow is not known: too few runs compare several hosts. A verdict takes 8 runs or more."
-- [[report.findings]]
-- when = "case when verdict not in ('too few runs', 'not compared') then verdict like 'slow%' end"
-- by = "compute_ratio"
-- most = 5
-- text = "{host}[ {gpu}] is slow: it computes longer than its peers in {slower_runs} of {runs} runs, {compute_ratio %} of their time."
-- advice = "Compare its clocks and throttling (gpu_clocks), and take it out of the pool until it passes a burn-in."
-- [[report.findings]]
-- when = "case when verdict not in ('too few runs', 'not compared') then verdict like '%late' end"
-- by = "lateness_ns"
-- most = 5
-- text = "{host}[ {gpu}] is late: its ranks enter collectives later than others in {late_runs} of {collective_runs} runs, by {lateness_ns} in all."
-- advice = "Run straggler_causes on its last run {last_run}: data loading, the CPU side, or the GPU."
-- ///
with placed as (
    select
        k.run, r.began_at, k.rank,
        k.host,
        case when $by = 'gpu' then coalesce(k.uuid, concat('rank ', k.rank, ' device ', k.device)) end as gpu,
        coalesce(k.step_compute_ns, k.compute_ns) as compute_ns,
        k.collectives, k.times_last, k.lateness_ns
    from rollup_ranks as k
    join rollup_runs as r on k.run = r.run
    where matches(k.run, $run) and $step_name is not null
),
in_runs as (
    select
        run, began_at, host, gpu,
        median(compute_ns) as compute_ns,
        sum(collectives) as collectives,
        sum(times_last) as times_last,
        sum(lateness_ns) as lateness_ns,
        sum(lateness_ns) / nullif(sum(collectives), 0) as late_ns
    from placed
    where host is not null
    group by run, began_at, host, gpu
),
compared as (
    select
        *,
        case when count(compute_ns) over of_run > 1 then compute_ns end as own_ns,
        median(compute_ns) over of_run as peer_ns,
        case
            when count(late_ns) over of_run > 1 and late_ns is not null then late_ns > median(late_ns) over of_run
        end as is_late
    from in_runs
    window of_run as (partition by run)
),
judged as (
    select *, own_ns > peer_ns as is_slower, coalesce(own_ns > peer_ns, false) or coalesce(is_late, false) as is_worse
    from compared
),
stretches as (
    select
        *,
        row_number() over (partition by host, gpu order by began_at, run)
            - row_number() over (partition by host, gpu, is_worse order by began_at, run) as stretch
    from judged
    where own_ns is not null or is_late is not null
),
longest as (
    select host, gpu, max(runs) filter (is_worse) as longest_runs
    from (select host, gpu, is_worse, stretch, count(*) as runs from stretches group by all)
    group by host, gpu
),
sums as (
    select
        host, gpu,
        count(own_ns) as runs,
        count(*) filter (is_slower) as slower_runs,
        as_bigint(floor(median(own_ns))) as own_compute_ns,
        as_bigint(floor(median(peer_ns) filter (own_ns is not null))) as peer_compute_ns,
        count(is_late) as collective_runs,
        count(*) filter (is_late) as late_runs,
        as_bigint(sum(lateness_ns)) as lateness_ns,
        as_bigint(sum(collectives)) as collectives,
        as_bigint(sum(times_last)) as times_last,
        count(*) filter (own_ns is not null or is_late is not null) as compared_runs,
        count(*) filter (is_worse) as worse_runs,
        arg_max(run, (began_at, run)) as last_run,
        count(*) filter (own_ns is null and is_late is null) as uncompared_runs
    from judged
    group by host, gpu
),
chances as (
    select *, sign_test(slower_runs, runs) as chance, sign_test(late_runs, collective_runs) as late_chance
    from sums
),
counted as (
    select *, (count_if(compared_runs > 0) over ())::bigint as hosts from chances
),
verdicts as (
    select
        *,
        hosts * chance < 0.01 and own_compute_ns >= (1 + $least_slower) * peer_compute_ns as is_slow,
        hosts * late_chance < 0.01 as is_late
    from counted
),
answers as (
    select
        v.host, v.gpu, v.runs, v.slower_runs, v.own_compute_ns, v.peer_compute_ns,
        v.own_compute_ns / nullif(v.peer_compute_ns, 0) as compute_ratio,
        v.chance, v.collective_runs, v.late_runs, v.lateness_ns, v.collectives, v.times_last, v.late_chance,
        coalesce(l.longest_runs, 0) as longest_runs,
        case
            when v.compared_runs = 0 then 'not compared'
            when v.compared_runs < 5 then 'too few runs'
            when v.worse_runs = 0 then 'never'
            when 3 * v.worse_runs >= 2 * v.compared_runs then 'persistent'
            else 'changing'
        end as persistence,
        v.hosts,
        case
            when v.is_slow or v.is_late then concat_ws(', ', if(v.is_slow, 'slow', null), if(v.is_late, 'late', null))
            when v.compared_runs = 0 then 'not compared'
            when v.hosts * 0.5 ** greatest(v.runs, v.collective_runs) >= 0.01 then 'too few runs'
            else 'neither'
        end as verdict,
        v.last_run, v.uncompared_runs
    from verdicts as v
    left join longest as l on v.host = l.host and v.gpu is not distinct from l.gpu
    union all by name
    select
        arg_max(run, (began_at, run)) as last_run,
        count(distinct run) as uncompared_runs,
        'not compared' as verdict,
        'not compared' as persistence
    from placed
    where host is null
    having count(*) > 0
)
from answers
order by verdict not in ('slow', 'slow, late', 'late'), least(chance, late_chance), host, gpu
