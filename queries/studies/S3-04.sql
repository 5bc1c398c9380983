-- The profiler reports the bandwidth of slow copies and the share of the copies' time that they take: 17.4 % of the
-- copies' time, which the study reads as memory copy time used up. Both terms are needed, and a peak to call slow: here
-- half of what copies from pinned memory reached when the machine was measured (`tracelab collect ceilings`), where it
-- was on that card; else half of the fastest size of copy from the host in the same run, which names no copy slow where
-- all are.
-- /// study
-- title = "Slow copies"
-- study = "share of the time, without the bandwidth it goes with"
-- corrected = "time of copies below half of the link's peak / time of all, and their bandwidth"
-- fits = "memcpys"
-- alone = true
-- capture = "tracelab collect sweep S3"
-- example = ["generated/generated-4rank-ddp", "generated/sweeps/generated-shares"]
-- chart = { x = "setting", by = "run" }
-- [answers]
-- sizes = { query = "memcpy_sizes" }
-- ///
with cards as (from card_facts('sizes', null)),
fastest as (
    select run, max(throughput_gb_per_s) as gb_per_s from sizes where direction = 'HtoD' group by run
),
rated as (
    select
        s.run, s.rank, s.device, s.dur_ns, s.timed_bytes,
        coalesce(l.gb_per_s, p.gb_per_s) as peak,
        coalesce('measured in ' || l.of_run, 'the fastest size of the run') as origin,
        s.throughput_gb_per_s < 0.5 * peak as is_slow
    from sizes as s
    join fastest as p using (run)
    left join measured_links('cards') as l
        on s.run = l.run and s.rank = l.rank and s.device is not distinct from l.device and s.direction = l.direction
    where s.direction = 'HtoD'
),
sums as (
    select
        run,
        rank,
        device,
        peak,
        origin,
        coalesce(sum(dur_ns) filter (is_slow), 0) as slow_ns,
        sum(dur_ns) as all_ns,
        sum(timed_bytes) filter (is_slow) as slow_bytes
    from rated
    group by run, rank, device, peak, origin
),
devices_rated as (
    select s.*, f.model, f.gpu, f.batch_size, f.gpus, concat('rank ', s.rank,
        coalesce(', GPU ' || s.device, '')) as place
    from sums as s join fitting as f using (run)
)
select
    'share of the time that is slow' as quantity,
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
    'share of the time that is slow' as quantity,
    s.run,
    s.model,
    s.gpu as machine,
    s.batch_size,
    s.gpus,
    s.place as setting,
    'ratio' as unit,
    s.slow_ns / nullif(s.all_ns, 0) as study,
    s.slow_ns / nullif(s.all_ns, 0) as corrected,
    printf('%d of %d ns', s.slow_ns::bigint, s.all_ns::bigint) as claim
from devices_rated as s
union all by name
select
    'bandwidth of the slow copies' as quantity,
    s.run,
    s.model,
    s.gpu as machine,
    s.batch_size,
    s.gpus,
    s.place as setting,
    'GB/s' as unit,
    s.slow_bytes / nullif(s.slow_ns, 0) as corrected
from devices_rated as s
union all by name
select
    'peak that slow is half of' as quantity,
    s.run,
    s.model,
    s.gpu as machine,
    s.batch_size,
    s.gpus,
    s.place as setting,
    'GB/s' as unit,
    s.peak as corrected,
    s.origin as claim
from devices_rated as s
order by all;

with known as (
    select
        count(*) filter (quantity like 'peak%') as devices,
        count(*) filter (quantity like 'peak%' and starts_with(claim, 'measured')) as measured
    from cells
)
select
    coalesce((
        select printf('At hand slow copies take %.3g %% to %.3g %% of the copies'' time, at ', 100 * min(corrected),
            100 * max(corrected))
        from cells where quantity = 'share of the time that is slow' and run is not null having count(*) > 0
    )
        || (
            select coalesce(printf('%.3g to %.3g GB/s', min(corrected), max(corrected)),
                'no bandwidth, for there are none')
            from cells where quantity = 'bandwidth of the slow copies'
        )
        || (
            select case measured
                when devices then ', by the measured peak of the link'
                when 0 then ', by the fastest copies of the run: no link was measured'
                else printf(', on %d of %d devices by the measured peak of the link', measured, devices)
            end
            from known
        ), 'No copy is at hand')
    || printf('; 17.4 %% in the study are a share of the copies'' time, not of the program''s.') as verdict
