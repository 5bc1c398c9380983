-- Where the CPU waits for the GPU: which call, in which op and at which line of the program.
-- A row is one run, rank, call, op and line. A call waits if its name has Synchronize, or if it is a copy that ended before the
-- call returned, as one from or to pageable memory. Of calls inside each other the outermost counts. `op` is the outermost
-- op around the call, such as aten::item, and `inner_op` the innermost one. `line` is the innermost Python frame around it
-- that is neither of torch nor of Python's own modules, where stacks are recorded: with_stack=True of the PyTorch profiler.
-- PyTorch records the line where a function begins, and not the one that runs; of a function that began before the recording
-- the one that ran then. Waits of several threads may overlap. A scope
-- chooses calls; the copies, ops and frames that explain them may lie outside of it.
-- /// query
-- title = "Waits for the GPU"
-- needs = ["api_calls"]
-- subject = "host"
-- show = ["run", "rank", "call", "op", "line", "calls", "wait_ns", "of_window_ratio"]
-- chart = { kind = "bars", x = "op", y = ["wait_ns"], by = "run" }
-- hints = [
--     { when = "not exists (from python_frames where matches(run, $run) and matches(rank, $rank))", text = "no line is known: no Python frames are recorded, and call stacks in arguments of ops are not read; record frames with with_stack=True of the PyTorch profiler" },
--     { when = "exists (from python_frames where matches(run, $run) and matches(rank, $rank))", text = "`line` is where the function begins that waits, not the line that runs: PyTorch records no other" },
-- ]
-- [params]
-- common = ["run", "rank"]
-- [columns]
-- common = ["run", "rank"]
-- call = "Name of the API call."
-- op = "The outermost op that it is made in; NULL without one."
-- inner_op = "The innermost op that it is made in; NULL without one."
-- line = "The innermost Python frame of the program around it, as file(line): function; of PyTorch the line where the function begins; NULL where no stacks are recorded."
-- calls = "common"
-- wait_ns = "Their durations, added up."
-- max_ns = "common"
-- mean_ns = "wait_ns / calls, rounded to whole ns."
-- of_window_ratio = "wait_ns / window_ns."
-- window_ns = "First start to last end of the rank's API calls and ops, summed over the sources."
-- ///
with api as not materialized (
    select run, source, rank, pid, tid, name, start_ns, end_ns, correlation, in_scope
    from recorded_api_calls
    where has_valid_interval(start_ns, end_ns) and api <> 'osrt' and matches(run, $run) and matches(rank, $rank)
),
copies as (
    select run, source, pid, correlation, max(end_ns) as copied_ns
    from (from memcpys union all from left_out_memcpys)
    where matches(run, $run) and matches(rank, $rank) and has_valid_interval(start_ns, end_ns) and correlation is not null
    group by run, source, pid, correlation
),
waiting as materialized (
    select row_number() over () as id, null as part, a.run, a.source, a.rank, a.pid, a.tid, a.name, a.start_ns, a.end_ns,
        a.in_scope
    from api as a
    left join copies as c
        on a.run = c.run and a.source = c.source and a.pid is not distinct from c.pid and a.correlation = c.correlation
    where a.name ilike '%synchronize%' or c.copied_ns between a.start_ns and a.end_ns
),
outer_ids as materialized (
    from outermost('waiting')
),
waits as materialized (
    select * from waiting where in_scope and id in (from outer_ids)
),
points as not materialized (
    select id, run, source, pid, tid, start_ns as at_ns from waits
),
host_ops as materialized (
    select row_number() over () as id, null as part, run, source, rank, pid, tid, name, start_ns, end_ns, in_scope
    from recorded_ops
    where matches(run, $run) and matches(rank, $rank)
),
outer_op_ids as materialized (
    from outermost('host_ops')
),
outer_ops as materialized (
    select * from host_ops where id in (from outer_op_ids)
),
frames as materialized (
    select row_number() over () as id, run, source, rank, pid, tid, name, start_ns, end_ns
    from unscoped_python_frames
    where matches(run, $run) and matches(rank, $rank) and is_program_frame(name)
),
located as (
    select w.run, w.rank, w.name as call, o.name as op, i.name as inner_op, f.name as line, w.end_ns - w.start_ns as dur_ns
    from waits as w
    left join innermost('outer_ops', 'points') as b on w.id = b.id
    left join outer_ops as o on b.parent = o.id
    left join innermost('host_ops', 'points') as c on w.id = c.id
    left join host_ops as i on c.parent = i.id
    left join innermost('frames', 'points') as d on w.id = d.id
    left join frames as f on d.parent = f.id
),
host_rows as not materialized (
    select run, source, rank, null::integer as device, start_ns, end_ns from api where in_scope
    union all
    select run, source, rank, null, start_ns, end_ns from host_ops where in_scope
)
select
    l.run, l.rank, l.call, l.op, l.inner_op, l.line,
    count(*) as calls,
    as_bigint(sum(l.dur_ns)) as wait_ns,
    max(l.dur_ns) as max_ns,
    as_bigint(round(sum(l.dur_ns) / count(*))) as mean_ns,
    sum(l.dur_ns) / nullif(w.window_ns, 0) as of_window_ratio,
    w.window_ns
from located as l
join windows('host_rows') as w on l.run = w.run and l.rank = w.rank
group by l.run, l.rank, l.call, l.op, l.inner_op, l.line, w.window_ns
order by l.run, l.rank, sum(l.dur_ns) desc, l.call, l.op, l.inner_op, l.line
