-- Which line of the program launches which kernels, and for how long they run.
-- A row is one run, rank, line, kernel and source file of the kernel; with --by line one run, rank and line. The line is the
-- innermost Python frame around the launch that is neither of torch or Triton nor of Python's own modules; of the backward pass
-- that around the forward op. PyTorch records the line where a function begins, and not the one that runs; of a function that
-- began before the recording the one that ran then. It is NULL where no stacks are recorded: with_stack=True of the PyTorch profiler. Of a kernel that Inductor generated in Triton the op
-- that launches it names the file of its source (`kernel_file`; torch 2.4 and newer). A kernel that the program itself wrote in
-- Triton has the line that calls it: `--kernel-name` chooses kernels. A
-- kernel that a graph replays has the line of its capture (see graph_replays). Times add up over kernels that run at once.
-- /// query
-- title = "Kernels by line of the program"
-- needs = ["kernels"]
-- subject = "kernels"
-- show = ["run", "rank", "line", "kernel", "kernels", "dur_ns", "of_kernel_sum_ratio"]
-- chart = { kind = "bars", x = "line", y = ["dur_ns"], by = "run" }
-- hints = [
--     { when = "misses_captures($run, $rank, $captures_from)", text = "kernels of graphs have no op: no run that was read has their capture; graph_replays finds the run that does: name it with --captures-from" },
--     { when = "not exists (from python_frames where matches(run, $run) and matches(rank, $rank))", text = "no line is known: no Python frames are recorded, and call stacks in arguments of ops are not read; record frames with with_stack=True of the PyTorch profiler" },
-- ]
-- [params]
-- common = ["run", "rank"]
-- by = { default = "kernel", choices = ["kernel", "line"], about = "what the rows are of" }
-- kernel_name = { type = "text", example = "^triton_", about = "only kernels where this regular expression finds its name" }
-- captures_from = "common"
-- [columns]
-- common = ["run", "rank"]
-- line = "The innermost Python frame of the program around the launch, as file(line): function; NULL where none is recorded."
-- kernel = "Kernel name; NULL with --by line."
-- kernel_file = "File of its source; NULL where the op that launched it does not name it, and with --by line."
-- kernels = "common"
-- dur_ns = "common"
-- kernel_sum_ns = "Durations of all kernels of the rank, added up."
-- of_kernel_sum_ratio = "common"
-- ///
with executions as not materialized (
    select
        run, source, rank, pid, device, name, correlation, external_id, graph_node, start_ns, end_ns, stream,
        case when has_valid_interval(start_ns, end_ns) then dur_ns else 0 end as dur_ns
    from kernels
    where matches(run, $run) and matches(rank, $rank)
),
kinds as materialized (
    from kernel_kinds('executions')
),
works as materialized (
    from works_of_kinds('executions', 'kinds')
),
launched as not materialized (
    from launched_works('works', 'kinds')
),
api as not materialized (
    from filtered_calls($run, $rank)
),
replayed as materialized (
    from known_replays($run, $rank, $captures_from)
),
host_ops as materialized (
    from surrounding_ops($run, $rank, 'replayed')
),
frames as materialized (
    from program_frames($run, $rank, 'replayed')
),
points as materialized (
    from linked_points('launched', 'api', 'host_ops', 'replayed')
),
elsewhere as not materialized (
    from unscoped_ops where not (matches(run, $run) and matches(rank, $rank))
),
files as materialized (
    select row_number() over () as id, run, source, pid, tid, start_ns, end_ns, args->>'$.kernel_file' as kernel_file
    from (
        from unscoped_ops where matches(run, $run) and matches(rank, $rank)
        union all
        from around_captures('elsewhere', 'replayed')
    )
    where starts_with(name, 'triton_') and args->>'$.kernel_file' is not null
),
placed as materialized (
    select w.kind, i.frame, j.parent as file, count(*) as kernels, sum(w.dur_ns) as dur_ns
    from works as w
    left join point_frames('points', 'host_ops', 'frames') as i on w.id = i.id
    left join innermost('files', 'points') as j on w.id = j.id
    group by w.kind, i.frame, j.parent
),
sums as (
    select
        k.run, k.rank, f.name as line,
        if($by = 'kernel', k.name, null) as kernel,
        if($by = 'kernel', g.kernel_file, null) as kernel_file,
        sum(p.kernels) as kernels,
        sum(p.dur_ns) as dur_ns
    from placed as p
    join kinds as k using (kind)
    left join frames as f on p.frame = f.id
    left join files as g on p.file = g.id
    where $kernel_name is null or regexp_matches(k.name, $kernel_name)
    group by all
),
shares as (
    select s.*, k.kernel_sum_ns
    from sums as s
    join (select run, rank, sum(dur_ns) as kernel_sum_ns from placed join kinds using (kind) group by run, rank) as k
        on s.run = k.run and s.rank is not distinct from k.rank
)
select
    run, rank, line, kernel, kernel_file,
    as_bigint(kernels) as kernels,
    as_bigint(dur_ns) as dur_ns,
    as_bigint(kernel_sum_ns) as kernel_sum_ns,
    dur_ns / nullif(kernel_sum_ns, 0) as of_kernel_sum_ratio
from shares
order by run, rank, shares.dur_ns desc, line, kernel, kernel_file
