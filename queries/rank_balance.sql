-- Which term differs between ranks, and by how much: compute, communication, copies, idle time, waits, kernels, memory.
-- A row is one run, term and rank, with by_step one step as well: the rank's amount beside the median of all ranks. The times
-- are those between the first and the last row of the rank's devices, or between the marks of the step: compute, exposed
-- communication, exposed copies and idle add up to it; a nanosecond counts once, for the first that applies. With a scope, time
-- in which only rows outside of it ran is a term of its own before idle. Waits are those of stragglers, within communication. Sorted by amount within a term, the first row is the largest rank. A rank that
-- computes longer shows in compute, and the others in communication, where they wait for it.
-- /// query
-- title = "Balance of ranks"
-- needs = ["kernels", "annotations"]
-- subject = "communication"
-- show = ["run", "rank", "step", "term", "unit", "amount", "median_amount", "of_median_ratio", "difference_ns"]
-- chart = { kind = "grid", x = "rank", y = ["of_median_ratio"], labels = ["amount, as a multiple of the median"], by = "term", panel = ["run", "step"] }
-- [params]
-- common = ["run", "rank"]
-- by_step = { default = false, about = "a row for each step" }
-- step_name = "common"
-- [columns]
-- common = ["run", "rank"]
-- step = "Number of the step, in rows by step."
-- term = "compute, communication, copies, out of scope, idle, wait, window, kernels or memory peak."
-- unit = "ns, B or kernels."
-- amount = "That of this rank."
-- median_amount = "The median over the ranks, rounded down."
-- of_median_ratio = "amount / median_amount."
-- difference_ns = "amount less median_amount, of times."
-- of_window_ratio = "difference_ns / window_ns."
-- window_ns = "The rank's window: of its devices, or the step."
-- ranks = "Ranks with the term."
-- ///
with executions as not materialized (
    select run, source, rank, pid, device, stream, name, start_ns, end_ns, dur_ns, correlation, kind as part
    from gpu_activity
    where matches(run, $run)
),
waits as not materialized (
    select * from collective_waits where in_scope and last_rank is not null and not is_p2p
),
steps as materialized (
    select * from recorded_steps($run, null, $step_name) where step is not null and end_ns > start_ns
),
lanes as materialized (
    select
        (row_number() over (order by run, rank, source, device))::integer as lane, run, source, rank, device, first_ns, last_ns
    from (
        select run, source, rank, device, min(start_ns) as first_ns, max(end_ns) as last_ns
        from (
            select run, source, rank, device, start_ns, end_ns from executions where has_valid_interval(start_ns, end_ns)
            union all
            select run, source, rank, device, start_ns, end_ns from cpu_layers where in_scope
            union all
            from scope_edge_rows('executions')
        )
        group by run, source, rank, device
    )
),
spans as materialized (  -- of two processes of a rank the one that begins a step first
    select lane, run, rank, null::bigint as step, first_ns as start_ns, last_ns as end_ns from lanes where not $by_step
    union all
    select l.lane, l.run, l.rank, s.step, min(s.start_ns), arg_min(s.end_ns, s.start_ns)
    from steps as s
    join lanes as l on s.run = l.run and s.source = l.source and s.rank = l.rank
    where $by_step
    group by l.lane, l.run, l.rank, s.step
),
cuts as materialized (
    from cuts_at('spans')
),
other_cpu_layers as (
    from cpu_layers where not in_scope
),
work as (
    from layer_rows('executions', 'lanes')
    union all
    select l.lane, w.layer, w.start_ns, w.end_ns
    from cpu_layers as w
    join hint_small('lanes') as l on w.run = l.run and w.source = l.source and w.rank = l.rank and l.device is null
    where w.in_scope
    union all
    select lane, 3 + layer, start_ns, end_ns from out_of_scope_stretches('lanes', 'other_cpu_layers')
),
times as materialized (
    from layer_times('work', 'cuts')
),
spent as materialized (
    select
        s.run, s.rank, s.step,
        sum(s.end_ns - s.start_ns) as window_ns,
        sum(coalesce(t.compute_ns, 0)) as compute_ns,
        sum(coalesce(t.exposed_comm_ns, 0)) as communication_ns,
        sum(coalesce(t.exposed_memory_ns, 0)) as copies_ns,
        sum(coalesce(t.out_of_scope_ns, 0)) as out_of_scope_ns
    from spans as s
    join cuts as c on s.lane = c.lane and s.end_ns = c.at_ns
    left join times as t on c.cell = t.cell and s.start_ns < s.end_ns
    group by s.run, s.rank, s.step
),
waited as (
    select w.run, w.rank, case when $by_step then s.step end as step, sum(w.wait_ns) as wait_ns
    from waits as w
    left join entered_steps('collective_waits', 'steps') as s on w.run = s.run and w.number = s.number
    group by w.run, w.rank, case when $by_step then s.step end
),
kernels_of_lanes as (
    select l.lane, l.run, l.rank, l.first_ns, k.start_ns
    from executions as k
    join hint_small('lanes') as l
        on k.run = l.run and k.source = l.source and k.rank = l.rank and k.device is not distinct from l.device
    where k.part = 'kernel'
),
counted as (
    select run, rank, null::bigint as step, count(*) as kernels
    from kernels_of_lanes
    where start_ns >= first_ns and not $by_step
    group by run, rank
    union all
    select s.run, s.rank, s.step, count(*)
    from kernels_of_lanes as k
    asof join spans as s on k.lane = s.lane and k.start_ns >= s.start_ns
    where k.start_ns < s.end_ns and $by_step
    group by s.run, s.rank, s.step
),
peaks as (
    select run, rank, max(peak_bytes) as peak_bytes
    from (
        select run, rank, max(allocated_bytes) as peak_bytes
        from memory_events
        where device is not null and matches(run, $run) and not $by_step
        group by run, rank
        union all
        select run, rank, max(allocated_bytes)
        from memory_peaks
        where matches(run, $run) and not $by_step
        group by run, rank
    )
    group by run, rank
),
terms as (
    select run, rank, step, 1 as place, 'compute' as term, 'ns' as unit, compute_ns as amount from spent
    union all
    select run, rank, step, 2, 'communication', 'ns', communication_ns from spent
    union all
    select run, rank, step, 3, 'copies', 'ns', copies_ns from spent
    union all
    select run, rank, step, 4, 'out of scope', 'ns', out_of_scope_ns
    from spent
    where run in (select run from spent where out_of_scope_ns > 0)
    union all
    select run, rank, step, 5, 'idle', 'ns', window_ns - compute_ns - communication_ns - copies_ns - out_of_scope_ns from spent
    union all
    select run, rank, step, 6, 'wait', 'ns', wait_ns from waited where step is not null or not $by_step
    union all
    select run, rank, step, 7, 'window', 'ns', window_ns from spent
    union all
    select run, rank, step, 8, 'kernels', 'kernels', kernels from counted
    union all
    select run, rank, null, 9, 'memory peak', 'B', peak_bytes from peaks
),
compared as (
    select
        *,
        floor(median(amount) over (partition by run, step, place)) as median_amount,
        count(*) over (partition by run, step, place) as ranks
    from terms
    where amount is not null
)
select
    c.run, c.rank, c.step, c.term, c.unit,
    as_bigint(c.amount) as amount,
    as_bigint(c.median_amount) as median_amount,
    c.amount / nullif(c.median_amount, 0) as of_median_ratio,
    case when c.unit = 'ns' then as_bigint(c.amount - c.median_amount) end as difference_ns,
    case when c.unit = 'ns' then (c.amount - c.median_amount) / nullif(s.window_ns, 0) end as of_window_ratio,
    as_bigint(s.window_ns) as window_ns,
    c.ranks
from compared as c
left join spent as s on c.run = s.run and c.rank = s.rank and c.step is not distinct from s.step
where matches(c.rank, $rank)
order by c.run, c.step, c.place, c.amount desc, c.rank
