-- Where the critical path of a run, or of a step of it, runs over time, as critical_path_timeline has it: the rows of its answer.
-- /// of one query
-- /// where bins = 100
-- /// where step = null
-- /// where step_name = "(?i)^(profiler)?step\\s*#?\\s*\\d+$"
with lengths as (
    select run, span_ns, (span_ns + $bins - 1) // nullif($bins, 0) as bin_ns
    from path_runs
    where matches(run, $run) and $bins > 0 and $step_name is not null and step is not distinct from $step
),
stretches as (
    select
        p.run, p.rank, p.class, p.at_ns, p.at_ns + p.dur_ns as until_ns, l.bin_ns,
        p.at_ns // l.bin_ns as bin,
        (bin + 1) * l.bin_ns as bin_end_ns
    from path_rows as p
    join hint_small('lengths') as l on p.run = l.run
    where p.step is not distinct from $step
),
begun as materialized (  -- most stretches end in the bin that they begin in
    select
        run, rank, class, bin, bin_ns,
        sum(least(until_ns, bin_end_ns) - at_ns) as dur_ns,
        list(until_ns) filter (until_ns > bin_end_ns) as later_ends_ns
    from stretches
    group by run, rank, class, bin, bin_ns
),
later as (
    select run, rank, class, bin as first_bin, bin_ns, unnest(later_ends_ns) as until_ns from begun
),
pieces as (
    select run, rank, class, until_ns, bin_ns, unnest(range(first_bin + 1, (until_ns - 1) // bin_ns + 1)) as bin from later
),
times as (
    select run, rank, class, bin, dur_ns from begun
    union all
    select run, rank, class, bin, least(until_ns, (bin + 1) * bin_ns) - bin * bin_ns from pieces
),
parts as (
    select
        run, rank, bin, dur_ns,
        case
            when class = 'communication' then 'communication'
            when class in ('cpu', 'cpu_unrecorded', 'data_loader') then 'cpu'
            when class in ('launch_latency', 'scheduling', 'synchronization') then 'waiting'
            when class = 'unknown' then 'unknown'
            else 'gpu'
        end as part
    from times
),
sums as materialized (
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
    from (select distinct run, rank from sums) as r
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
