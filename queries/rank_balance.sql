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
    from layer_lanes('executions', 'cpu_layers')
),
spans as materialized (  -- of two processes of a rank the one that begins a step first
    select l.lane, l.run, l.rank, s.step, min(s.start_ns) as start_ns, arg_min(s.end_ns, s.start_ns) as end_ns
    from steps as s
    join lanes as l on s.run = l.run and s.source = l.source and s.rank = l.rank
    group by l.lane, l.run, l.rank, s.step
),
work as (
    from lane_work('executions', 'cpu_layers', 'lanes')
),
counted as (
    select s.run, s.rank, s.step, count(*) as kernels
    from (
        select l.lane, k.start_ns
        from executions as k
        join hint_small('lanes') as l
            on k.run = l.run and k.source = l.source and k.rank = l.rank and k.device is not distinct from l.device
        where k.part = 'kernel'
    ) as k
    asof join spans as s on k.lane = s.lane and k.start_ns >= s.start_ns
    where k.start_ns < s.end_ns
    group by s.run, s.rank, s.step
),
spent as materialized (
    select
        run, rank, null::bigint as step, window_ns::hugeint as window_ns, compute_ns::hugeint as compute_ns,
        communication_ns::hugeint as communication_ns, copies_ns::hugeint as copies_ns, out_of_scope_ns::hugeint as out_of_scope_ns,
        kernels
    from rank_layers
    where matches(run, $run) and not $by_step
    -- /// if by_step = true
    union all
    select s.*, c.kernels
    from span_times('spans', 'work') as s
    left join counted as c on s.run = c.run and s.rank = c.rank and s.step is not distinct from c.step
    where $by_step
    -- /// end
),
waited as (
    select w.run, w.rank, case when $by_step then s.step end as step, sum(w.wait_ns) as wait_ns
    from waits as w
    left join entered_steps('collective_waits', 'steps') as s on w.run = s.run and w.number = s.number
    group by w.run, w.rank, case when $by_step then s.step end
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
    select run, rank, step, 8, 'kernels', 'kernels', kernels from spent
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
