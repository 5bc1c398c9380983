-- What decides whether runs can be compared, NULL for what a run does not record.
-- A row is one run.
with lanes_seen as (
    select run, rank, device, true as is_gpu from gpu_activity group by run, rank, device
    union all
    select run, rank, null, false from ops group by run, rank
    union all
    select run, rank, null, false from annotations group by run, rank
    union all
    select run, rank, null, false from steps group by run, rank
),
lane_counts as (
    select run, count(distinct rank) as ranks, count(distinct (rank, device)) filter (is_gpu) as gpus
    from lanes_seen
    group by run
),
named as (  -- profilers of different versions write the vendor, or not
    select d.run, regexp_replace(d.name, '^(NVIDIA|AMD) ', '') as name, d.host, l.run is not null as is_used
    from devices as d
    left join lanes_seen as l on l.is_gpu and d.run = l.run and d.rank = l.rank and d.device = l.device
),
cards as (  -- of those whose ordinals are known the used ones
    select
        run,
        coalesce(
            string_agg(distinct name, ', ' order by name) filter (is_used),
            string_agg(distinct name, ', ' order by name)
        ) as gpu,
        string_agg(distinct host, ', ' order by host) as host
    from named
    group by run
),
files as (
    select
        run,
        profilers(list(format)) as profiler,
        bool_and(complete) as complete,
        case
            when bool_and(sha256 is not null) then string_agg(distinct sha256, ',' order by sha256)
        end as content
    from sources
    group by run
),
timelines as (  -- of one trace, plain and compressed, the files differ, and the rows do not
    select run, concat_ws(' ', count(*), min(start_ns), max(start_ns), sum(dur_ns), sum(hash(start_ns, dur_ns)::hugeint)) as rows
    from (
        select run, start_ns, end_ns - start_ns as dur_ns from gpu_activity
        union all
        select run, start_ns, dur_ns from ops
        union all
        select run, start_ns, dur_ns from annotations
    )
    group by run
),
samples as (
    select
        run, median(sm_clock_hz) as sm_clock_hz, median(power_w) as power_w, median(temperature_c) as temperature_c
    from host_samples
    where device is not null and util_ratio > 0
    group by run
),
kinds as (
    select run, string_agg(kind, ', ' order by place) as recorded
    from (
        select run, 1 as place, 'GPU activity' as kind from lanes_seen where is_gpu group by run
        union all
        select run, 2, 'API calls' from api_calls group by run
        union all
        select run, 3, 'ops' from ops group by run
        union all
        select run, 4, 'shapes' from ops where input_shapes is not null group by run
        union all
        select run, 5, 'Python stacks' from python_frames group by run
        union all
        select run, 6, 'memory' from memory_events group by run
    )
    group by run
)
select
    f.run, coalesce(c.gpu, regexp_replace(r.gpu, '^(NVIDIA|AMD) ', '')) as gpu, n.gpus, n.ranks,
    r.world_size, r.workload, r.model, r.dataset, r.batch_size, r.global_batch_size, r.image_size, r.precision, r.optimizer,
    r.parallelism, r.workers, r.program, f.profiler, k.recorded, f.complete,
    coalesce(c.host, r.host) as host,
    r.driver, r.cuda_version, r.torch_version, r.git_commit,
    s.sm_clock_hz, s.power_w, s.temperature_c, h.wait_ratio as core_wait_ratio, h.sentence as core_wait, f.content, t.rows
from files as f
left join lane_counts as n using (run)
left join cards as c using (run)
left join runs as r using (run)
left join kinds as k using (run)
left join samples as s using (run)
left join host_load as h using (run)
left join timelines as t using (run)
order by f.run
