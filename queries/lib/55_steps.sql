-- step_ranges(relation, pattern): the host ranges of a relation of annotations (run, source, rank, pid, name, scope,
-- start_ns, end_ns) whose name the regular expression finds, and whether each is `nested`: starts with another one of its
-- process or lies inside it, so that it is no step of its own. Of equal ranges that of PyTorch's profiler is the outer one.
create or replace macro step_ranges(relation, pattern) as table
with _marked as (
    select run, source, rank, pid, name, start_ns, end_ns
    from query_table(relation)
    where scope = 'cpu' and has_valid_interval(start_ns, end_ns) and regexp_matches(name, pattern)
),
_ordered as (
    select
        *,
        lag(start_ns) over process as begun_ns,
        max(end_ns) over (process rows between unbounded preceding and 1 preceding) as open_until_ns
    from _marked
    window process as (
        partition by run, source, rank, pid
        order by start_ns, end_ns desc, not starts_with(name, 'ProfilerStep#'), name
    )
)
select
    run, source, rank, pid, name, start_ns, end_ns,
    coalesce(start_ns = begun_ns or (start_ns < open_until_ns and end_ns <= open_until_ns), false) as nested
from _ordered;

-- steps_of(relation, pattern): the steps that a program marks, of a relation as step_ranges() takes it: the ranges that are
-- not nested. A row is one step of one process: `id` is a number of its own, as `process` is of its process, `place` counts
-- the process's steps from 1, `step` is the last number in the name. A step lasts from its start to the start of the next,
-- the last one to its own end; `range_end_ns` is where its range ends, or where the next one begins, if that is earlier.
create or replace macro steps_of(relation, pattern) as table
with _placed as (
    select
        run, source, rank, pid, name, start_ns,
        end_ns as own_end_ns,
        row_number() over process as place,
        lead(start_ns) over process as next_ns
    from step_ranges(relation, pattern)
    where not nested
    window process as (partition by run, source, rank, pid order by start_ns)
)
select
    row_number() over (order by run, source, rank, pid, place) as id,
    dense_rank() over (order by run, source, rank, pid) as process,
    run, source, rank, pid, place, name,
    try_cast(regexp_extract(name, '(\d+)\D*$', 1) as bigint) as step,
    start_ns,
    coalesce(next_ns, own_end_ns) as end_ns,
    least(own_end_ns, coalesce(next_ns, own_end_ns)) as range_end_ns
from _placed;

-- recorded_steps(of_run, of_rank, pattern): steps_of() this run and rank, or all where these are NULL.
create or replace macro recorded_steps(of_run, of_rank, pattern) as table
with _recorded_marks as (
    select run, source, rank, pid, name, scope, start_ns, end_ns
    from annotations
    where matches(run, of_run) and matches(rank, of_rank)
)
from steps_of('_recorded_marks', pattern);

-- with_process(relation, steps): the rows of a relation (run, source, rank, pid) whose process has steps, with its number.
create or replace macro with_process(relation, steps) as table
select p.process, r.*
from query_table(relation) as r
join (select distinct process, run, source, rank, pid from query_table(steps)) as p
    on r.run = p.run and r.source = p.source and r.rank = p.rank and r.pid is not distinct from p.pid;

-- split_at_steps(relation, steps): rows (process, id, start_ns, end_ns) cut at the ends of the steps of their process. A row
-- is the piece of one row in one step (`step_id`); what lies in no step is left out. The steps of a process follow each
-- other, so a row lies in those from one place to another, and no row is compared with all steps.
create or replace macro split_at_steps(relation, steps) as table
with _reach as (
    select r.id, r.process, r.start_ns, r.end_ns, coalesce(f.place, 1) as first_place, l.place as last_place
    from query_table(relation) as r
    asof left join query_table(steps) as f on r.process = f.process and r.start_ns >= f.start_ns
    asof join query_table(steps) as l on r.process = l.process and r.end_ns > l.start_ns
    where has_valid_interval(r.start_ns, r.end_ns)
),
_pieces as (
    select id, process, start_ns, end_ns, unnest(range(first_place, last_place + 1)) as place from _reach
)
select
    p.id, s.id as step_id,
    greatest(p.start_ns, s.start_ns) as start_ns,
    least(p.end_ns, s.end_ns) as end_ns
from _pieces as p
join query_table(steps) as s using (process, place)
where greatest(p.start_ns, s.start_ns) < least(p.end_ns, s.end_ns);

-- layers_in_slots(changes, slots): the stretches of time in slots, each with the lowest layer that has a row there: `depth`,
-- the rows of all layers as one number, 31 bits each, and `layer`, 0 to 2, else 3. `changes` are what is added to the depth
-- of a lane at a time: lane, at_ns, step. One running sum counts them all. `slots` are stretches of each lane, one after the
-- other, with start_ns, end_ns and an even number, `slot`, that grows with lane and time: which one it is, is the running
-- maximum of those begun, the odd one after the last of a lane being none.
create or replace macro layers_in_slots(changes, slots) as table
with _events as (
    select lane, at_ns, step, null::bigint as slot from query_table(changes)
    union all
    select lane, start_ns, 0, slot from query_table(slots)
    union all
    select lane, max(end_ns), 0, max(slot) + 1 from query_table(slots) group by lane
),
_sums as (
    select
        lane, at_ns,
        lead(lane) over () as next_lane,
        lead(at_ns) over () as next_ns,
        sum(step) over (rows between unbounded preceding and current row) as depth,
        max(slot) over (rows between unbounded preceding and current row) as slot
    from (select lane, at_ns, step, slot from _events order by lane, at_ns)
)
select
    slot,
    next_ns - at_ns as dur_ns,
    depth,
    case
        when depth & 2147483647 > 0 then 0
        when (depth >> 31) & 2147483647 > 0 then 1
        when (depth >> 62) & 2147483647 > 0 then 2
        else 3
    end as layer
from _sums
where lane = next_lane and next_ns > at_ns and slot % 2 = 0;

-- layers_of_steps(relation, slots): where the time of each step on a device goes. The relation has lane, layer (0 to 2),
-- start_ns, end_ns and the bounds of the row's own step, step_start_ns and step_end_ns (NULL: it has none); `slots` are the
-- steps of each lane, as in layers_in_slots(). A row is one stretch of time in a step in which any row runs. It counts for
-- the lowest layer that has a row of this step that runs, else for layer 3. A row changes its layer where its own step
-- begins or ends, so rows are never cut.
create or replace macro layers_of_steps(relation, slots) as table
with _rows as not materialized (
    select
        lane, start_ns, end_ns, step_start_ns, step_end_ns,
        1::hugeint << (31 * layer) as own,
        1::hugeint << 93 as other,
        coalesce(start_ns >= step_start_ns and start_ns < step_end_ns, false) as begins_in,
        coalesce(end_ns > step_start_ns and end_ns <= step_end_ns, false) as ends_in
    from query_table(relation)
    where has_valid_interval(start_ns, end_ns) and end_ns > start_ns
),
_changes as (
    select lane, start_ns as at_ns, case when begins_in then own else other end as step from _rows
    union all
    select lane, end_ns, case when ends_in then -own else -other end from _rows
    union all
    select lane, step_start_ns, own - other from _rows where start_ns < step_start_ns and step_start_ns < end_ns
    union all
    select lane, step_end_ns, other - own from _rows where start_ns < step_end_ns and step_end_ns < end_ns
)
select slot, dur_ns, layer
from layers_in_slots('_changes', slots)
where depth > 0;

-- time_outside_steps(relation): the time in which rows of a step run outside of it, of a relation as layers_of_steps()
-- takes it, with the row's own slot (for rows of no step a number below 0). A row is one stretch of time of one slot.
create or replace macro time_outside_steps(relation) as table
with _rows as not materialized (
    select slot, start_ns, end_ns, step_start_ns, step_end_ns
    from query_table(relation)
    where has_valid_interval(start_ns, end_ns) and end_ns > start_ns
        and coalesce(start_ns < step_start_ns or end_ns > step_end_ns, true)
),
_pieces as (
    select slot, start_ns, least(end_ns, step_start_ns) as end_ns from _rows where coalesce(start_ns < step_start_ns, true)
    union all
    select slot, greatest(start_ns, step_end_ns), end_ns from _rows where end_ns > step_end_ns
),
_events as (
    select slot as lane, start_ns as at_ns, 1 as step from _pieces
    union all
    select slot, end_ns, -1 from _pieces
)
select lane as slot, start_ns, end_ns, dur_ns
from running_depth('_events')
where depth > 0;

-- with_step(relation, steps): the rows of a relation of GPU rows (run, source, rank, pid, device, stream, correlation,
-- start_ns, and any others, which stay) whose process has steps of steps_of(), each with its step_id: the step in whose range
-- on the host it was launched, by any thread; without a recorded launch the step whose range on its stream it starts in;
-- NULL for neither. As step_breakdown counts them.
create or replace macro with_step(relation, steps) as table
with _calls as (
    select a.process, a.correlation, a.start_ns, case when a.start_ns < s.range_end_ns then s.id else 0 end as step_id
    from with_process('unscoped_api_calls', steps) as a
    asof left join query_table(steps) as s on a.process = s.process and a.start_ns >= s.start_ns
    where a.correlation is not null and a.api in ('runtime', 'driver') and has_valid_interval(a.start_ns, a.end_ns)
),
_launches as (
    select process, correlation, nullif(arg_min(step_id, start_ns), 0) as step_id from _calls group by process, correlation
),
_marks as (  -- of steps with one name the one that began last before the range, else the first
    select m.process, m.device, m.stream, m.start_ns, m.end_ns, coalesce(s.id, f.id) as step_id
    from with_process('unscoped_annotations', steps) as m
    join (select process, name, min(id) as id from query_table(steps) group by process, name) as f using (process, name)
    asof left join query_table(steps) as s on m.process = s.process and m.name = s.name and m.start_ns >= s.start_ns
    where m.scope = 'gpu' and has_valid_interval(m.start_ns, m.end_ns)
),
_launched as (
    select r.*, l.step_id as launch_step_id
    from with_process(relation, steps) as r
    left join _launches as l on r.process = l.process and r.correlation = l.correlation
)
select
    r.* exclude (process, launch_step_id),
    coalesce(launch_step_id, case when r.start_ns < m.end_ns then m.step_id end) as step_id
from _launched as r
asof left join _marks as m
    on r.process = m.process and r.device is not distinct from m.device and r.stream is not distinct from m.stream
    and r.start_ns >= m.start_ns;

-- layers_in_steps(relation, slots): what runs on a device in each of its slots, also for other steps: of rows (lane,
-- layer, start_ns, end_ns) that run at once the lowest layer counts, 0 to 2; 3 is time in which none runs. `slots` are as in
-- layers_in_slots(). A row is one stretch of time in a slot.
create or replace macro layers_in_steps(relation, slots) as table
with _rows as not materialized (
    select lane, start_ns, end_ns, 1::hugeint << (31 * layer) as depth
    from query_table(relation)
    where has_valid_interval(start_ns, end_ns) and end_ns > start_ns
),
_changes as (
    select lane, start_ns as at_ns, depth as step from _rows
    union all
    select lane, end_ns, -depth from _rows
)
select slot, dur_ns, layer
from layers_in_slots('_changes', slots);

-- program_start_ranges(marks): the ranges from the beginning of a process to the end of its first step, or of the recording,
-- that `tracelab collect run` writes, of a relation of annotations (run, source, rank, pid, name, scope, start_ns, end_ns).
create or replace macro program_start_ranges(marks) as table
select run, source, rank, pid, start_ns, end_ns
from query_table(marks)
where name = 'Program start' and scope = 'cpu' and has_valid_interval(start_ns, end_ns);

-- program_starts(marks, pattern): those ranges of which the process begins a step after them. The pattern is a regular
-- expression that finds the names of steps. A row is one process.
create or replace macro program_starts(marks, pattern) as table
with _starts as materialized (
    from program_start_ranges(marks)
)
select p.run, p.source, p.rank, p.pid, min(p.start_ns) as start_ns, max(p.end_ns) as end_ns
from _starts as p
where exists (
    select 1
    from query_table(marks) as s
    where s.run = p.run and s.source = p.source and s.rank = p.rank and s.pid is not distinct from p.pid
        and s.scope = 'cpu' and s.start_ns >= p.end_ns and regexp_matches(s.name, pattern)
)
group by p.run, p.source, p.rank, p.pid;
