-- Compilation inside the recording: torch.compile or Triton at work in steps that should be measured.
-- A row is one run and rank. Compilations are ranges of Dynamo, AOTAutograd and Inductor (`dynamo_timed`), or with Python
-- stacks the frames of Dynamo and Triton that compile. Where none is recorded, the first call of a compiled region or graph
-- that takes more than ten times the median of the others, and 10 ms more, may be one, or may tune kernels or capture a CUDA
-- graph: an info.
-- /// check
-- title = "Compilation inside the recording"
-- severity = "warning"
-- how_to_fix = "Warm up for more steps before the recording, with all shapes that it has; TORCH_LOGS=recompiles names the guard that failed."
-- ///
with marks as materialized (
    select row_number() over () as id, * from compile_marks where has_valid_interval(start_ns, end_ns)
),
compilations as materialized (
    select id, run, source, rank, pid, tid, null as part, start_ns, end_ns from marks where kind = 'compile'
),
compiled as (
    select run, rank, count(*) as compilations, sum(end_ns - start_ns) as compile_ns
    from compilations
    semi join outermost('compilations') using (id)
    group by run, rank
),
calls as (  -- a CompiledFxGraph lies in its CompiledFunction: each name is compared with itself
    select
        run, source, rank, name, end_ns - start_ns as call_ns,
        row_number() over (partition by run, source, rank, name order by start_ns) = 1 as is_first
    from marks
    where kind in ('region', 'graph')
),
first_calls as (
    select run, rank, name, max(call_ns) filter (is_first) as first_ns, median(call_ns) filter (not is_first) as usual_ns
    from calls
    group by run, source, rank, name
    having count(*) >= 3
),
long_firsts as (  -- the longest one counts: one range may lie in another
    select run, rank, count(*) as firsts, max(first_ns) as first_ns, max_by(usual_ns, (first_ns, name)) as usual_ns, max_by(name, (first_ns, name)) as name
    from first_calls
    where first_ns > 10 * usual_ns and first_ns - usual_ns > 10_000_000
    group by run, rank
),
spans as (
    select run, rank, sum(end_ns - start_ns) as recorded_ns from recordings group by run, rank
)
select
    c.run, c.rank,
    c.compilations as count,
    format(
        '{} took {} of {} recorded ({}): the steps that compile measure the compiler.',
        count_phrase(c.compilations, 'compilation', 'compilations'),
        format_duration(c.compile_ns), format_duration(s.recorded_ns), percent(c.compile_ns, s.recorded_ns)
    ) as message,
    null as severity
from compiled as c
join spans as s using (run, rank)
union all
select
    f.run, f.rank, f.firsts,
    format(
        'The first call of {} took {}, the others {}: it may have compiled, tuned kernels or captured a graph.',
        f.name, format_duration(f.first_ns), format_duration(f.usual_ns)
    ),
    'info'
from long_firsts as f
anti join compiled using (run, rank)
order by run, rank
