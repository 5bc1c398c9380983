-- What the GPUs of ranks do between some instants: which layer runs, compute before communication before copies, and why
-- none does.

-- lane_states(rows, cuts): states() in one pass over all events, which takes one core.
-- The pieces of a layer that remain follow each other, so one running sum holds the codes of all layers, 12 bits each. The
-- events run backward in time, because an idle stretch takes its cause from the row that ends it: the latest start so far.
create or replace macro lane_states(rows, cuts) as table
with _ordered as (
    select
        lane, layer, code, start_ns, end_ns, launched_ns,
        ((4 * lane + layer)::hugeint << 64) as base,
        max(base + end_ns) over (rows between unbounded preceding and current row) as latest
    from (
        select lane, layer, code, start_ns, end_ns, launched_ns
        from query_table(rows)
        order by 4 * lane + layer, start_ns, end_ns desc, launched_ns nulls last, code
    )
),
_covered as (
    select
        lane, layer, code, start_ns, end_ns, launched_ns,
        greatest(lag(latest) over () - base, -4611686018427387904)::bigint as covered_ns
    from _ordered
),
_pieces as materialized (
    select
        lane,
        greatest(start_ns, coalesce(covered_ns, start_ns)) as start_ns,
        end_ns,
        code::bigint << (12 * layer) as step,
        case when coalesce(covered_ns <= start_ns, true) then coalesce(launched_ns + 4611686018427387905, 0) end as launched
    from _covered
    where coalesce(end_ns > covered_ns or end_ns = start_ns and start_ns = covered_ns, true)
),
_events as (
    select lane, start_ns as at_ns, -step as step, launched, null::bigint as cell from _pieces
    union all
    select lane, end_ns, step, null, null from _pieces
    union all
    select lane, at_ns, 0, null, cell from hint_small(cuts)
),
_sums as (
    select
        lane, at_ns,
        lead(lane) over () as next_lane,
        lead(at_ns) over () as next_ns,
        (sum(step) over (rows between unbounded preceding and current row))::bigint as codes,
        last_value(cell ignore nulls) over (rows between unbounded preceding and current row) as cell,
        last_value(launched ignore nulls) over (rows between unbounded preceding and current row) as launched
    from (select lane, at_ns, step, launched, cell from _events order by lane, at_ns desc, launched desc nulls first)
)
select
    lane, cell,
    next_ns as start_ns,
    at_ns as end_ns,
    case
        when codes & 4095 > 0 then 0
        when (codes >> 12) & 4095 > 0 then 1
        when codes > 0 then 2
        else 3
    end as layer,
    case layer when 0 then codes & 4095 when 1 then (codes >> 12) & 4095 when 2 then codes >> 24 end::integer as code,
    case when layer = 3 then nullif(launched, 0) - 4611686018427387905 end as launched_ns
from _sums
where lane = next_lane and next_ns < at_ns;

-- states(rows, cuts): what each lane does between some instants. Rows have lane, layer (0: compute, 1: communication, 2:
-- copies), code (a number from 1 to 4095), start_ns, end_ns and launched_ns, the end of the call that launched them (NULL:
-- not recorded). Cuts have lane, at_ns and cell, a number from 1 that grows with the lane and falls with the time; a cell is
-- the time from the cut before. A row is one stretch of time of a lane and cell in which nothing changes: `layer` is the
-- lowest of a row that runs, 3 where none does, `code` that row's. Of several rows of one layer the one that began first
-- counts until it ends, then the next one. An idle stretch has the launched_ns of the row that ends it: of several that
-- begin together the earliest.
-- Two passes, each over half of the lanes, use two cores.
create or replace macro states(rows, cuts) as table
with _rows as materialized (
    select lane, layer, code, start_ns, end_ns, launched_ns from query_table(rows)
),
_even_rows as (from _rows where lane % 2 = 0),
_odd_rows as (from _rows where lane % 2 = 1),
_even_cuts as (from query_table(cuts) where lane % 2 = 0),
_odd_cuts as (from query_table(cuts) where lane % 2 = 1)
from lane_states('_even_rows', '_even_cuts')
union all
from lane_states('_odd_rows', '_odd_cuts');

-- cuts_at(spans): the starts and ends of spans (lane, start_ns, end_ns) as cuts of states().
create or replace macro cuts_at(spans) as table
select lane, at_ns, row_number() over (order by lane, at_ns desc) as cell
from (
    select lane, start_ns as at_ns from query_table(spans)
    union
    select lane, end_ns from query_table(spans)
);

-- layer_rows(executions, lanes): the kernels, copies, memsets and graphs of some lanes (lane, run, source, rank, device) as
-- layer_times() takes them: layer 0 is compute, 1 communication, 2 copies and memsets, from 3 on the same of rows outside of the
-- scope. `executions` are rows of gpu_activity with their kind as `part`.
create or replace macro layer_rows(executions, lanes) as table
select
    l.lane,
    case when w.part in ('memcpy', 'memset') then 2 when w.class = 'communication' then 1 else 0 end::tinyint as layer,
    w.start_ns, w.end_ns
from with_class(executions) as w
join hint_small(lanes) as l
    on w.run = l.run and w.source = l.source and w.rank = l.rank and w.device is not distinct from l.device
where has_valid_interval(w.start_ns, w.end_ns)
union all
select lane, 3 + layer, start_ns, end_ns from out_of_scope_stretches(lanes, 'out_of_scope_layers');

-- layer_bit(layer): the lowest of the bits that count the rows of a layer of layer_stretches(): 20, and above them one for the
-- same outside of the scope, whose rows do not overlap. So the lowest bit of a sum is that of the row that counts. It is exact
-- while fewer than 1 048 576 rows of a layer run at once.
create or replace macro layer_bit(layer) as 21 * (layer % 3) + case when layer > 2 then 20 else 0 end;

-- layer_stretches(rows, cuts): the stretches of time of layer_times() in one pass over all events, which takes one core. One
-- running sum holds the depths of all layers, as in running_depths(). The events run backward in time, as the cells do.
create or replace macro layer_stretches(rows, cuts) as table
with _events as (
    select lane, start_ns as at_ns, -(1::bigint << layer_bit(layer)) as step, null::bigint as cell from query_table(rows)
    union all
    select lane, end_ns, 1::bigint << layer_bit(layer), null from query_table(rows)
    union all
    select lane, at_ns, 0, cell from hint_small(cuts)
),
_sums as (
    select
        lane, at_ns,
        lead(lane) over () as next_lane,
        lead(at_ns) over () as next_ns,
        sum(step) over (rows between unbounded preceding and current row) as depths,
        last_value(cell ignore nulls) over (rows between unbounded preceding and current row) as cell
    from (select lane, at_ns, step, cell from _events order by lane, at_ns desc)
)
select
    lane, cell,
    at_ns - next_ns as dur_ns,
    case
        when depths & 1048575 > 0 then 0
        when (depths >> 20) & 1 > 0 then 3
        when (depths >> 21) & 1048575 > 0 then 1
        when (depths >> 41) & 1 > 0 then 3
        when (depths >> 42) & 1048575 > 0 then 2
        when depths > 0 then 3
        else 4
    end as layer
from _sums
where lane = next_lane and next_ns < at_ns;

-- layer_times(rows, cuts): of each lane and cell of states() the time in each layer: compute_ns, exposed_comm_ns,
-- exposed_memory_ns, out_of_scope_ns and idle_ns, which add up to the cell. Rows have lane, layer, start_ns and end_ns. Which row of a layer
-- runs does not matter here, and rows outside of the scope hide those of higher layers: so a depth suffices, and one sort.
create or replace macro layer_times(rows, cuts) as table
with _rows as materialized (
    select lane, layer, start_ns, end_ns from query_table(rows)
),
_even_rows as (from _rows where lane % 2 = 0),
_odd_rows as (from _rows where lane % 2 = 1),
_even_cuts as (from query_table(cuts) where lane % 2 = 0),
_odd_cuts as (from query_table(cuts) where lane % 2 = 1),
_stretches as (
    from layer_stretches('_even_rows', '_even_cuts')
    union all
    from layer_stretches('_odd_rows', '_odd_cuts')
)
select
    lane, cell,
    coalesce(sum(dur_ns) filter (layer = 0), 0) as compute_ns,
    coalesce(sum(dur_ns) filter (layer = 1), 0) as exposed_comm_ns,
    coalesce(sum(dur_ns) filter (layer = 2), 0) as exposed_memory_ns,
    coalesce(sum(dur_ns) filter (layer = 3), 0) as out_of_scope_ns,
    coalesce(sum(dur_ns) filter (layer = 4), 0) as idle_ns
from _stretches
group by lane, cell;

-- layer_lanes(executions, cpu): the devices of ranks as lanes (lane, run, source, rank, device, first_ns, last_ns), with what ranks that
-- communicate on the CPU do as a lane without a device. `executions` are as of layer_rows(), `cpu` as of cpu_layers.
create or replace macro layer_lanes(executions, cpu) as table
select (row_number() over (order by run, rank, source, device))::integer as lane, run, source, rank, device, first_ns, last_ns
from (
    select run, source, rank, device, min(start_ns) as first_ns, max(end_ns) as last_ns
    from (
        select run, source, rank, device, start_ns, end_ns from query_table(executions) where has_valid_interval(start_ns, end_ns)
        union all
        select run, source, rank, device, start_ns, end_ns from query_table(cpu) where in_scope
        union all
        from scope_edge_rows(executions)
    )
    group by run, source, rank, device
);

-- lane_work(executions, cpu, lanes): the rows of layer_rows() and those of `cpu`.
create or replace macro lane_work(executions, cpu, lanes) as table
with _other_cpu as (
    from query_table(cpu) where not in_scope
)
from layer_rows(executions, lanes)
union all
select l.lane, w.layer, w.start_ns, w.end_ns
from query_table(cpu) as w
join hint_small(lanes) as l on w.run = l.run and w.source = l.source and w.rank = l.rank and l.device is null
where w.in_scope
union all
select lane, 3 + layer, start_ns, end_ns from out_of_scope_stretches(lanes, '_other_cpu');

-- span_times(spans, work): layer_times() of spans (lane, run, rank, step, start_ns, end_ns), added up by run, rank and step.
create or replace macro span_times(spans, work) as table
with _cuts as materialized (
    from cuts_at(spans)
),
_times as materialized (
    from layer_times(work, '_cuts')
)
select
    s.run, s.rank, s.step,
    sum(s.end_ns - s.start_ns) as window_ns,
    sum(coalesce(t.compute_ns, 0)) as compute_ns,
    sum(coalesce(t.exposed_comm_ns, 0)) as communication_ns,
    sum(coalesce(t.exposed_memory_ns, 0)) as copies_ns,
    sum(coalesce(t.out_of_scope_ns, 0)) as out_of_scope_ns
from query_table(spans) as s
join _cuts as c on s.lane = c.lane and s.end_ns = c.at_ns
left join _times as t on c.cell = t.cell and s.start_ns < s.end_ns
group by s.run, s.rank, s.step;
