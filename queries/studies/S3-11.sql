-- A launch takes long where the queue is full: the call then waits for the GPU. Time spent launching says as little of the
-- GPU's work as it says of the calls' cost; the number, the mean and the queue's depth tell them apart.
-- /// study
-- title = "Share of launch calls"
-- study = "time of launch calls / time of all API calls"
-- corrected = "calls of a step, and the mean time of one"
-- fits = "api_calls"
-- capture = "tracelab collect sweep S3 --match '*window-backward*'"
-- example = ["generated/sweeps/generated-shares"]
-- chart = { kind = "line", x = "batch_size", by = "model" }
-- [answers]
-- shares = { query = "sweep_shares" }
-- queues = { query = "launch_latency" }
-- ///
select 'share of the calls'' time' as quantity, null as run, model, machine, batch_size, gpus, 'the study' as setting, unit, value as published, null::double as study, null::double as corrected, claim, place from published
union all
select 'share of the calls'' time', s.run, s.model, f.gpu, s.batch_size, f.gpus, s.layout, 'ratio', null, s.of_api_sum_ratio, null, printf('%d launches', s.calls), null
from shares as s join fitting as f using (run) where s.share = 'launch'
union all
select 'time of a launch', s.run, s.model, f.gpu, s.batch_size, f.gpus, s.layout, 'ns', null, null, s.dur_ns / nullif(s.calls, 0), null, null
from shares as s join fitting as f using (run) where s.share = 'launch'
union all
select 'launches waiting at once', l.run, f.model, f.gpu, f.batch_size, f.gpus, null, 'count', null, null, max(l.max_queue_depth), null, null
from queues as l join fitting as f using (run) group by l.run, f.model, f.gpu, f.batch_size, f.gpus
order by all;

select
    printf('Launch calls take %.1f %% to %.1f %% of the calls'' time; one takes %.3g µs on average, and up to %d wait at once.',
        100 * min(study), 100 * max(study),
        (select avg(corrected) / 1e3 from cells where quantity = 'time of a launch'),
        (select max(corrected)::bigint from cells where quantity = 'launches waiting at once')) as verdict
from cells
where run is not null and quantity = 'share of the calls'' time'
