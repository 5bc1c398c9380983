-- What runs at once on each device, over time. A row is one bin of a source's time on a device, from start_ns to end_ns, and one
-- state: whether compute, communication, copies or memsets, and whole graphs run. dur_ns is the time of the state in the bin; kernel_ns
-- is that time for each kernel in flight, of which there are max_kernels at most. Bins are equal parts of the axis of the run, of
-- which axis_of() has shift_ns and length_ns, no longer than bin_ns: one where devices have few rows, else 100, or two, four,
-- eight … times as many. first_ns and last_ns are those of the rows on the device, which has one row of 0 ns where they take no
-- time. Of a wanted rank, or of all; in a scope, of its rows.
-- /// of one query
with activity as not materialized (  -- each use reads only its own kinds and columns
    select run, source, rank, device, kind, start_ns, end_ns
    from gpu_activity
    where matches(run, $run) and matches(rank, $rank)
),
executions as not materialized (
    select run, source, rank, pid, device, stream, name, start_ns, end_ns, dur_ns, correlation
    from kernels
    where matches(run, $run) and matches(rank, $rank)
),
everything as not materialized (
    select run, source, rank, device, start_ns, end_ns from gpu_activity where matches(run, $run)
),
all_lanes as materialized (
    from lanes('everything')
),
extents as (
    select run, source, first_ns as start_ns, last_ns as end_ns from all_lanes
),
placed as materialized (
    from axis_of('extents')
),
own_lanes as materialized (
    from all_lanes where matches(rank, $rank)
),
sizes as (
    select run, (select count(*) from activity as a where a.run = l.run) // count(*) as lane_rows
    from own_lanes as l
    group by run
),
timelines as materialized (
    select
        l.* exclude (part), p.shift_ns, p.length_ns,
        case when s.lane_rows < 1600 then 1 else 100 << greatest(log2(s.lane_rows / 25600), 0)::integer end as bins
    from own_lanes as l
    join placed as p using (run, source)
    join sizes as s using (run)
),
numbered as (
    select *, unnest(range(first_bin, last_bin + 1)) as bin
    from (
        select
            *,
            bin_of(first_ns + shift_ns, 0, length_ns, bins) as first_bin,
            bin_of(last_ns - 1 + shift_ns, 0, length_ns, bins) as last_bin
        from timelines
        where last_ns > first_ns
    )
),
pieces as materialized (  -- numbered in the order of their starts, lane by lane
    select
        row_number() over (order by lane, bin) as piece,
        lane,
        greatest(bin_edge(bin, 0, length_ns, bins) - shift_ns, first_ns) as start_ns,
        least(bin_edge(bin + 1, 0, length_ns, bins) - shift_ns, last_ns) as end_ns
    from numbered
),
marked as materialized (
    select l.lane, r.start_ns, r.end_ns, r.mark
    from (
        select
            run, source, rank, device, start_ns, end_ns,
            case when class = 'communication' then 2 else 1 end::tinyint as mark
        from with_class('executions')
        where has_valid_interval(start_ns, end_ns)
        union all
        select run, source, rank, device, start_ns, end_ns, case when kind = 'graph' then 4 else 3 end::tinyint
        from activity
        where kind <> 'kernel' and has_valid_interval(start_ns, end_ns)
    ) as r
    join timelines as l on lane_key(r.run, r.source, r.rank, r.device, null) = l.key
),
events as (
    select lane, start_ns as at_ns, mark from marked
    union all
    select lane, end_ns, -mark from marked
    union all
    select lane, start_ns, 5 from pieces
),
stretches as (  -- by counts, as in sweep(); a piece is as many starts of pieces so far
    select
        lead(lane) over () = lane as is_inside,
        lead(at_ns) over () - at_ns as dur_ns,
        count(*) filter (mark = 5) over (rows between unbounded preceding and current row) as piece,
        count(*) filter (mark = 1) over (rows between unbounded preceding and current row)
            - count(*) filter (mark = -1) over (rows between unbounded preceding and current row) as computing,
        count(*) filter (mark = 2) over (rows between unbounded preceding and current row)
            - count(*) filter (mark = -2) over (rows between unbounded preceding and current row) as communicating,
        count(*) filter (mark = 3) over (rows between unbounded preceding and current row)
            - count(*) filter (mark = -3) over (rows between unbounded preceding and current row) as copying,
        count(*) filter (mark = 4) over (rows between unbounded preceding and current row)
            - count(*) filter (mark = -4) over (rows between unbounded preceding and current row) as graphs
    from (select lane, at_ns, mark from events order by lane, at_ns)
),
states as (
    select
        piece,
        computing > 0 as computes,
        communicating > 0 as communicates,
        copying > 0 as copies,
        graphs > 0 as runs_graph,
        sum(dur_ns) as dur_ns,
        sum(dur_ns::hugeint * (computing + communicating)) as kernel_ns,
        max(computing + communicating) as max_kernels
    from stretches
    where is_inside and dur_ns > 0
    group by all
)
select
    t.run, t.source, t.rank, t.device, t.shift_ns, t.length_ns, (t.length_ns - 1) // t.bins + 1 as bin_ns, t.first_ns, t.last_ns,
    p.start_ns, p.end_ns,
    s.computes, s.communicates, s.copies, s.runs_graph,
    s.dur_ns::bigint as dur_ns,
    s.kernel_ns::decimal(38, 0) as kernel_ns,
    s.max_kernels
from states as s
join pieces as p using (piece)
join timelines as t using (lane)
union all by name
select
    run, source, rank, device, shift_ns, length_ns,
    0 as bin_ns,
    first_ns, last_ns,
    first_ns as start_ns,
    last_ns as end_ns,
    false as computes,
    false as communicates,
    false as copies,
    false as runs_graph,
    0 as dur_ns,
    0 as kernel_ns,
    0 as max_kernels
from timelines
where last_ns = first_ns
