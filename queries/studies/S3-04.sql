-- The profiler reports the bandwidth of slow copies and the share of the copies' time that they take: 17.4 % of the
-- copies' time, which the study reads as memory copy time used up. Both terms are needed, and a peak to call slow: here
-- half of the fastest copy of that direction, or of the measured link.
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
with peaks as (
    select run, direction, max(throughput_gb_per_s) as peak from sizes group by all
),
rated as (
    select
        s.run, s.device, s.direction, s.dur_ns, s.timed_bytes,
        s.throughput_gb_per_s < 0.5 * p.peak as is_slow
    from sizes as s
    join peaks as p on s.run = p.run and s.direction = p.direction
    where s.direction = 'HtoD'
),
sums as (
    select run, device, sum(dur_ns) filter (is_slow) as slow_ns, sum(dur_ns) as all_ns, sum(timed_bytes) filter (is_slow) as slow_bytes
    from rated
    group by all
)
select
    'share of the time that is slow' as quantity, null as run, model, machine, batch_size, gpus, 'the study' as setting, unit, value as published,
    null::double as study, null::double as corrected, claim, place
from published
union all
select 'share of the time that is slow', s.run, f.model, f.gpu, f.batch_size, f.gpus, printf('GPU %d', s.device), 'ratio', null,
    s.slow_ns / nullif(s.all_ns, 0), coalesce(s.slow_ns, 0) / nullif(s.all_ns, 0), null, null
from sums as s join fitting as f using (run)
union all
select 'bandwidth of the slow copies', s.run, f.model, f.gpu, f.batch_size, f.gpus, printf('GPU %d', s.device), 'GB/s', null, null, s.slow_bytes / nullif(s.slow_ns, 0), null, null
from sums as s join fitting as f using (run)
order by all;

select
    coalesce((
        select printf('At hand slow copies take %.3g %% to %.3g %% of the copies'' time, at ', 100 * min(corrected), 100 * max(corrected))
        from cells where quantity = 'share of the time that is slow' and run is not null
    ) || (
        select coalesce(printf('%.3g GB/s on average', avg(corrected)), 'no bandwidth, for there are none') from cells where quantity = 'bandwidth of the slow copies'
    ), 'No copy is at hand')
    || printf('; 17.4 %% in the study are a share of the copies'' time, not of the program''s.') as verdict
