-- Where the critical path runs over time: on which rank, and on what.
-- A row is one run, rank and time bin; all bins of a run are alike, up to rounding. In a bin the path is on one or several
-- ranks, one after the other: the parts of all ranks but elsewhere_ns add up to bin_ns. How the path is found, and what it
-- is in a scope: see critical_path. The bins of a scope are those from its first window to its last.
-- /// query
-- title = "Critical path over time"
-- needs = ["kernels", "memcpys", "memsets", "graph_launches", "ops", "api_calls"]
-- show = ["run", "rank", "at_ns", "gpu_ns", "communication_ns", "cpu_ns", "waiting_ns", "unknown_ns", "elsewhere_ns"]
-- chart = { kind = "timeline", x = "at_ns", y = ["gpu_ns", "communication_ns", "cpu_ns", "waiting_ns", "unknown_ns", "elsewhere_ns"], labels = { at_ns = "time since the start", gpu_ns = "GPU", communication_ns = "communication", cpu_ns = "CPU", waiting_ns = "gaps, synchronization", unknown_ns = "unknown", elsewhere_ns = "path on other ranks" }, by = "rank" }
-- hints = [
--     { when = "exists (from processes_apart($run, $rank))", text = "the clocks of CPU and GPU are apart, and times from one to the other mean little; tracelab doctor --check sync_before_end prints by how much" },
-- ]
-- [params]
-- common = ["run", "rank"]
-- bins = { default = 100, about = "bins of equal length" }
-- step = { type = "integer", example = 3, about = "only this step: from its first start on any rank to its last end" }
-- step_name = "common"
-- [columns]
-- common = ["run", "rank"]
-- at_ns = "Start of the bin, since the start of the window."
-- bin_ns = "Its length."
-- gpu_ns = "Time of the path in kernels that do not communicate, copies, memsets and graphs of this rank."
-- communication_ns = "Time of the path in transfers of this rank."
-- cpu_ns = "Time of the path on threads of this rank, its data loader included."
-- waiting_ns = "Time of the path in gaps before GPU rows of this rank, and in synchronization."
-- unknown_ns = "Time of the path on this rank of which nothing recorded shows what it waits for."
-- elsewhere_ns = "Time in which the path is on other ranks, or outside of the scope."
-- [report]
-- section = "time"
-- order = 5
-- [[report.findings]]
-- when = "waiting_ns > 0.9 * bin_ns"
-- by = "waiting_ns"
-- text = "[{where}: ]at {at_ns} the critical path waits for {waiting_ns of bin_ns} of a bin."
-- advice = "See what is there in critical_path_rows: launches, or synchronization."
-- [[report.findings]]
-- when = "unknown_ns > 0.9 * bin_ns"
-- by = "unknown_ns"
-- text = "[{where}: ]at {at_ns} nothing recorded shows what the critical path waits for, in {unknown_ns of bin_ns} of a bin."
-- advice = "The reason in critical_path states what to record."
-- ///
with lengths as (
    select run, span_ns, (span_ns + $bins - 1) // nullif($bins, 0) as bin_ns
    from path_runs
    where matches(run, $run) and $bins > 0 and $step_name is not null and step is not distinct from $step
),
stretches as (
    select p.run, p.rank, p.class, p.at_ns, p.at_ns + p.dur_ns as until_ns, l.bin_ns
    from path_rows as p
    join lengths as l on p.run = l.run
    where p.step is not distinct from $step
),
pieces as (
    select run, rank, class, at_ns, until_ns, bin_ns, unnest(range(at_ns // bin_ns, (until_ns - 1) // bin_ns + 1)) as bin
    from stretches
),
parts as (
    select
        run, rank, bin,
        case
            when class = 'communication' then 'communication'
            when class in ('cpu', 'cpu_unrecorded', 'data_loader') then 'cpu'
            when class in ('launch_latency', 'scheduling', 'synchronization') then 'waiting'
            when class = 'unknown' then 'unknown'
            else 'gpu'
        end as part,
        sum(least(until_ns, (bin + 1) * bin_ns) - greatest(at_ns, bin * bin_ns)) as dur_ns
    from pieces
    group by all
),
sums as (
    select
        run, rank, bin,
        coalesce(sum(dur_ns) filter (part = 'gpu'), 0) as gpu_ns,
        coalesce(sum(dur_ns) filter (part = 'communication'), 0) as communication_ns,
        coalesce(sum(dur_ns) filter (part = 'cpu'), 0) as cpu_ns,
        coalesce(sum(dur_ns) filter (part = 'waiting'), 0) as waiting_ns,
        coalesce(sum(dur_ns) filter (part = 'unknown'), 0) as unknown_ns
    from parts
    group by run, rank, bin
),
placed as (
    select
        r.run, r.rank, b.bin,
        b.bin * l.bin_ns as at_ns,
        least(l.bin_ns, l.span_ns - b.bin * l.bin_ns) as bin_ns
    from (select distinct run, rank from stretches) as r
    join lengths as l on r.run = l.run
    join (select run, unnest(range((span_ns + bin_ns - 1) // bin_ns)) as bin from lengths) as b on l.run = b.run
)
select
    p.run, p.rank, p.at_ns, p.bin_ns,
    as_bigint(coalesce(s.gpu_ns, 0)) as gpu_ns,
    as_bigint(coalesce(s.communication_ns, 0)) as communication_ns,
    as_bigint(coalesce(s.cpu_ns, 0)) as cpu_ns,
    as_bigint(coalesce(s.waiting_ns, 0)) as waiting_ns,
    as_bigint(coalesce(s.unknown_ns, 0)) as unknown_ns,
    as_bigint(p.bin_ns - coalesce(s.gpu_ns + s.communication_ns + s.cpu_ns + s.waiting_ns + s.unknown_ns, 0)) as elsewhere_ns
from placed as p
left join sums as s on p.run = s.run and p.rank = s.rank and p.bin = s.bin
where matches(p.rank, $rank)
order by p.run, p.rank, p.at_ns
