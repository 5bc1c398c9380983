-- Communication between processes on the CPU, by gloo, MPI or UCC, and how much of it no computing hides.
-- A row is one run, rank and kind of collective; `all` is all of them together. A range whose name begins with gloo:, mpi: or
-- ucc:, or with MPI_, is communication. A rank computes while an op runs on any of its threads that is neither of c10d nor of
-- the autograd engine, or a kernel on its GPU; exposed is the rest. The waiting for other ranks is included.
-- /// query
-- title = "Communication on the CPU"
-- needs = ["annotations", "ops"]
-- show = ["run", "rank", "collective", "backend", "calls", "busy_ns", "exposed_ns", "exposed_ratio"]
-- chart = { kind = "bars", x = "rank", y = ["busy_ns", "exposed_ns"], by = "run" }
-- hints = [
--     { when = "lacks_cpu_communication($run, $rank)", text = "no range is communication on the CPU; record several processes that communicate by gloo, MPI or UCC", empty = true },
-- ]
-- [params]
-- common = ["run", "rank", "step_name"]
-- [columns]
-- common = ["run", "rank"]
-- collective = "Kind of collective, or all."
-- backend = "gloo, mpi or ucc."
-- calls = "common"
-- dur_ns = "common"
-- busy_ns = "Time in which one of them runs."
-- exposed_ns = "Part of busy_ns in which the rank computes nothing."
-- window_ns = "First start to last end of the ops, kernels and communication of the rank."
-- of_window_ratio = "busy_ns / window_ns."
-- exposed_ratio = "exposed_ns / window_ns."
-- exposed_kind = "Of all: the kind with most of exposed_ns."
-- exposed_step = "Of all: the step with most of that, by the marks of the rank."
-- [report]
-- section = "communication"
-- order = 5
-- row = "rank[s]"
-- row_key = "rank"
-- show_if = "calls > 0"
-- without = "no range is communication on the CPU: record several processes that communicate by gloo or MPI"
-- ok_text = "Exposed communication on the CPU takes at most 10 % of the window of every rank."
-- unknown = "How much communication on the CPU is exposed is not known: no range of it took any time that is known."
-- [[report.findings]]
-- when = "collective = 'all' and exposed_ns > 0.1 * nullif(window_ns, 0)"
-- by = "exposed_ns"
-- cost = { ns = "exposed_ns", rows = "collective = 'all'", adds = true, topics = ["waiting", "transfer", "receiving"], detail = 1 }
-- text = "[{where}: ]communication by {backend} takes {busy_ns of window_ns} of the window, and {exposed_ns of window_ns} while nothing computes[, most in {exposed_kind}][, worst in step {exposed_step}]."
-- every = "{where}: communication by {backend} takes {busy_ns of window_ns} of the windows, and {exposed_ns of window_ns} while nothing computes[, most in {exposed_kind}][, worst in step {exposed_step} of rank {rank}]."
-- step = "exposed_step"
-- advice = "Overlap it with the backward pass (DDP's buckets), send less, or look for the rank that enters last."
-- ///
with marked as (
    select run, source, rank, pid, name, scope, start_ns, end_ns
    from annotations
    where matches(run, $run) and matches(rank, $rank)
),
steps as materialized (
    from steps_of('marked', $step_name)
),
spans as (
    select run, source, rank, name, start_ns, end_ns, dur_ns from annotations
    where scope = 'cpu' and matches(run, $run) and matches(rank, $rank)
    union all
    select run, source, rank, name, start_ns, end_ns, dur_ns from ops
    where matches(run, $run) and matches(rank, $rank)
),
communication as materialized (
    select
        run, source, rank, null::int as device, start_ns, end_ns, dur_ns,
        lower(regexp_extract(name, '^(gloo|mpi|ucc):|^(MPI)_', 0)) as prefix,
        cpu_collective(name) as collective
    from spans
    where is_cpu_communication(name)
),
parts as materialized (
    select run, source, rank, device, start_ns, end_ns, dur_ns, prefix, collective as part from communication
    union all
    select run, source, rank, device, start_ns, end_ns, dur_ns, prefix, 'all' from communication
),
labelled as (
    select run, source, rank, device, start_ns, end_ns, 'all' as part, collective as label from communication
),
in_steps as materialized (
    from with_entered_step('labelled', 'steps')
),
computing as (
    select run, source, rank, null::int as device, start_ns, end_ns
    from ops
    where is_computing_op(name)
        and run in (select run from communication) and matches(run, $run) and matches(rank, $rank)
    union all
    select run, source, rank, null, start_ns, end_ns
    from kernels
    where run in (select run from communication) and matches(run, $run) and matches(rank, $rank)
),
hiding as (  -- in the scope or not
    select run, source, rank, null::int as device, start_ns, end_ns
    from unscoped_ops
    where is_computing_op(name)
        and run in (select run from communication) and matches(run, $run) and matches(rank, $rank)
    union all
    select run, source, rank, null, start_ns, end_ns
    from unscoped_activity
    where kind = 'kernel' and run in (select run from communication) and matches(run, $run) and matches(rank, $rank)
),
measured as (  -- in one sweep
    select run, source, rank, device, start_ns, end_ns, part from parts
    union all
    from slices('in_steps')
),
clipped as materialized (
    from clip_to('measured', 'hiding')
),
within_all as (
    select run, source, rank, device, start_ns, end_ns, null as part from communication
    union all
    select run, source, rank, device, start_ns, end_ns, null from computing
),
sums as (
    select
        run, rank, part, string_agg(distinct rtrim(prefix, ':_'), ', ' order by rtrim(prefix, ':_')) as backend,
        count(*) as calls,
        as_bigint(coalesce(sum(dur_ns) filter (has_valid_interval(start_ns, end_ns)), 0)) as dur_ns
    from parts
    group by run, rank, part
)
select
    s.run, s.rank, s.part as collective, s.backend, s.calls, s.dur_ns, i.busy_ns, i.busy_ns - i.inside_ns as exposed_ns,
    w.window_ns, i.busy_ns / nullif(w.window_ns, 0) as of_window_ratio, (i.busy_ns - i.inside_ns) / nullif(w.window_ns, 0) as exposed_ratio,
    m.label as exposed_kind, m.step as exposed_step
from sums as s
left join most_exposed('in_steps', 'clipped') as m
    on s.run = m.run and s.rank is not distinct from m.rank and s.part = m.part
left join clipped as i
    on s.run = i.run and s.rank is not distinct from i.rank and s.part = i.part
left join windows('within_all') as w on s.run = w.run and s.rank is not distinct from w.rank
order by s.run, s.rank, s.part <> 'all', s.dur_ns desc, s.part
