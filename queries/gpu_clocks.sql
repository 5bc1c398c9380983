-- Clocks of the cards while they work, what holds them back, and what that can cost.
-- A row is one run, host and card that was sampled. A sample counts if the card works in it: its utilization is above 0 or
-- not known. It is limited if a reason other than idling or clocks set on purpose holds the clock back: power, temperature or
-- the board. The peak is the clock by specification, else the highest that any card of the run has in a sample. Work that is
-- bound by memory or by communication does not slow down with the multiprocessor clock, so `lost_ns` is an upper bound.
-- /// query
-- title = "Clocks of the GPUs"
-- needs = ["host_samples"]
-- show = ["run", "host", "card", "limited_ratio", "reasons", "mean_hz", "clock_ratio", "lost_ns"]
-- chart = { kind = "bars", x = "card", y = ["clock_ratio", "limited_ratio"], by = "run" }
-- hints = [
--     { when = "not exists (from host_samples where device is not null and sm_clock_hz > 0 and matches(run, $run))", text = "no clock of a GPU was sampled; record with tracelab collect on a node with NVML", empty = true },
-- ]
-- [params]
-- run = "common"
-- card = { type = "integer", about = "only this card of each host" }
-- [columns]
-- run = "common"
-- host = "Host of the card."
-- card = "Ordinal of the card on its host."
-- samples = "Samples in which the card works and its clock is known."
-- limited = "Those in which something holds the clock back."
-- explained = "Samples whose reasons are known."
-- limited_ratio = "limited / explained."
-- reasons = "What held the clock back, the most frequent first."
-- mean_hz = "Mean multiprocessor clock of the samples."
-- least_hz = "The lowest one."
-- peak_hz = "Clock by specification, else the highest in any sample of the run."
-- clock_ratio = "mean_hz / peak_hz."
-- highest_c = "Highest temperature of the samples."
-- mean_w = "Mean power draw of the samples."
-- busy_ns = "Time in which a kernel ran on the card; NULL where the run's ranks are on several hosts, or recorded no kernel."
-- lost_ns = "busy_ns times how far the limited samples are below peak_hz, as a mean over all samples: at most so much is lost."
-- [report]
-- section = "time"
-- order = 6
-- row = "GPU[s]"
-- ok_text = "No card is held back below 97 % of its clock while it works."
-- unknown = "Whether something holds the clocks back is not known: no sample has a clock of a card that works."
-- [[report.findings]]
-- when = "limited_ratio > 0.1 and clock_ratio < 0.97"
-- by = "1 - clock_ratio"
-- most = 3
-- cost = { ns = "lost_ns", adds = true, topics = ["clocks"], detail = 1 }
-- text = "GPU {card}[ of {host}] runs at {clock_ratio %} of its clock while it works, held back by {reasons} in {limited_ratio %} of the samples[; it reaches {highest_c}]."
-- every = "{where} run below their clocks while they work, held back in {limited of explained} of the samples; the one that loses most, GPU {card}[ of {host}], runs at {clock_ratio %} of its clock because of {reasons}."
-- advice = "Compare the power limit (`nvidia-smi -q -d POWER,PERFORMANCE`), cooling and neighbors with those of a card that is not held back."
-- ///
with sampled as (
    select run, host, device, sm_clock_hz, throttle_reasons, temperature_c, power_w
    from host_samples
    where device is not null and sm_clock_hz > 0 and coalesce(util_ratio, 1) > 0
        and matches(run, $run) and matches(device, $card)
),
causes as (
    select
        *,
        list_filter(
            string_split_regex(coalesce(throttle_reasons, ''), '[^a-z0-9_]+'),
            lambda word: word not in ('', 'none', 'gpu_idle', 'applications_clocks_setting', 'display_clock_setting')
        ) as words
    from sampled
),
counted as (
    select run, host, device, word, count(*) as hits
    from (select run, host, device, unnest(words) as word from causes)
    group by run, host, device, word
),
named as (
    select run, host, device, string_agg(word, ', ' order by hits desc, word) as reasons
    from counted
    group by run, host, device
),
cards as (
    select
        run, host, device, count(*) as samples, count(*) filter (len(words) > 0) as limited,
        count(throttle_reasons) as explained, avg(sm_clock_hz) as mean_hz, min(sm_clock_hz) as least_hz,
        avg(sm_clock_hz) filter (len(words) > 0) as limited_hz,
        max(max(sm_clock_hz)) over (partition by run) as highest_hz, max(temperature_c) as highest_c,
        avg(power_w) as mean_w
    from causes
    group by run, host, device
),
specified as (
    select run, device, max(spec_clock_hz) as spec_hz from devices where spec_clock_hz > 0 group by run, device
),
hosts as (
    select run, count(distinct host) as hosts from host_samples group by run
),
executions as (
    select run, source, rank, device, start_ns, end_ns, null as part from kernels where matches(run, $run)
),
worked as (
    select run, device, as_bigint(sum(busy_ns)) as busy_ns from busy('executions') group by run, device
)
select
    c.run, c.host, c.device::bigint as card, c.samples, c.limited, c.explained, c.limited / nullif(c.explained, 0) as limited_ratio, n.reasons,
    c.mean_hz, c.least_hz, coalesce(s.spec_hz, c.highest_hz) as peak_hz, c.mean_hz / peak_hz as clock_ratio, c.highest_c,
    c.mean_w, w.busy_ns,
    case when c.limited > 0 then as_bigint(
        round(w.busy_ns * (c.limited / c.samples) * least(1, greatest(0, 1 - c.limited_hz / peak_hz)))
    ) end as lost_ns
from cards as c
left join named as n on c.run = n.run and c.host is not distinct from n.host and c.device = n.device
left join specified as s on c.run = s.run and c.device = s.device
left join hosts as h on c.run = h.run
left join worked as w on c.run = w.run and c.device = w.device and h.hosts <= 1
order by c.run, c.host, card
