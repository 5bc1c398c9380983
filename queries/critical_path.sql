-- What the time of a run is spent on along its critical path: only what is on it makes the run shorter.
-- A row is one run and class, with `by` also one rank or op of it (rank and op are NULL otherwise); without a filter or a
-- scope of rows those of a run add up to its window. The path is walked back from the end of the window: from each row to
-- what it waited for last, which is the row before it on its stream, a row of another stream that an event awaits, the call
-- that launched it, the GPU row that a synchronizing call waits for, another thread, or the rank that enters a collective
-- last, by aligned clocks (see clock_offsets). Each nanosecond counts once. The time between a row and what it waited for is
-- launch_latency behind a launch and scheduling behind another row; unknown, where nothing recorded explains it. Time of a
-- thread is unknown too, where it recorded neither op nor call for over 100 us in a process without recorded ops and calls
-- of the operating system (nsys --trace=osrt), for then it may have worked or waited; or where it waited in such a call, and
-- what ended that is not recorded. Above a share of 20 % unknown, time before a rank's recording included, bound_by is NULL:
-- the sums are exact, but what is behind the unknown part may be anything. It also is NULL where the clocks of CPU and GPU
-- are apart, because the path passes from one to the other: where in a process most synchronizations return over a
-- millisecond before their work ends, or most GPU rows begin as long before their launch. In a scope the path is that of the
-- whole recording: `--steps`, `--from`, `--to` and `--after-start` take windows of it, and `--within`, `--stream` and
-- `--linked` the rows of the scope, whose ratios are of all of the window; of streams these are rows of GPUs alone.
-- /// query
-- title = "Critical path"
-- needs = ["kernels", "memcpys", "memsets", "graph_launches", "ops", "api_calls"]
-- show = ["run", "class", "rank", "op", "dur_ns", "of_window_ratio", "bound_by", "reason"]
-- chart = { kind = "bars", x = "class", y = ["dur_ns"] }
-- hints = [
--     { when = "exists (from processes_apart($run, $rank))", text = "the clocks of CPU and GPU are apart, and times from one to the other mean little; tracelab doctor --check sync_before_end prints by how much" },
-- ]
-- [params]
-- common = ["run", "rank"]
-- by = { default = "class", choices = ["class", "rank", "op"], about = "what the rows are of" }
-- step = { type = "integer", example = 3, about = "only this step: from its first start on any rank to its last end" }
-- step_name = "common"
-- [columns]
-- run = "common"
-- class = "Class of the kernel; memcpy, memset, cuda_graph, cpu, cpu_unrecorded, data_loader, synchronization, launch_latency, scheduling or unknown."
-- rank = "common"
-- op = "Innermost op around it or its launch; NULL unless by = op."
-- dur_ns = "Time on the path; the rows of a run add up to window_ns."
-- of_window_ratio = "dur_ns / window_ns."
-- stretches = "Stretches of the path."
-- window_ns = "From the first start to the last end of all rows, of a step or of the windows of a scope, on aligned clocks."
-- unknown_ns = "Time of the path in which it is not known what it waited for."
-- unknown_ratio = "unknown_ns / window_ns."
-- bound_by = "gpu, communication, copy (memcpys and memsets), cpu, data_loader, launch_latency, scheduling or synchronization: the largest share of the rows."
-- reason = "Why bound_by is NULL, or which ranks are left out."
-- [report]
-- section = "time"
-- order = 4
-- [[report.findings]]
-- when = "bound_by is not null and class <> 'unknown' and dur_ns > 0.2 * nullif(window_ns, 0)"
-- by = "dur_ns"
-- most = 2
-- text = "[{where}: ]of the critical path {dur_ns of window_ns} are {class}."
-- advice = "Only time on this path makes the run shorter: critical_path_rows lists it, and what_if computes what a change would gain."
-- [[report.findings]]
-- when = "unknown_ns > largest_unknown_ratio() * nullif(window_ns, 0)"
-- by = "unknown_ns"
-- text = "[{where}: ]what bounds the critical path is not known, because {reason}."
-- advice = "Record synchronizations, events and system calls, and all ranks from one step on, as the guide of the critical path describes."
-- ///
with totals as (
    select
        run, class,
        case when $by = 'rank' then rank end as rank,
        case when $by = 'op' then op end as op,
        sum(dur_ns) as dur_ns,
        sum(stretches) as stretches
    from path_times
    where matches(run, $run) and matches(rank, $rank)
    group by all
),
groups as (
    select
        run,
        case
            when class in ('memcpy', 'memset') then 'copy'
            when class = 'cpu_unrecorded' then 'cpu'
            when class in ('communication', 'cpu', 'data_loader', 'launch_latency', 'scheduling', 'synchronization') then class
            else 'gpu'
        end as bound_by,
        sum(dur_ns) as dur_ns
    from totals
    where class <> 'unknown'
    group by all
),
largest as (
    select run, arg_max(bound_by, (dur_ns, bound_by)) as bound_by from groups group by run
),
windows as (
    select distinct run, window_ns, unknown_ns, late_rank, late_ns, ranks_left_out, unexplained_reason, clocks_reason
    from path_times
)
select
    t.run, t.class, t.rank, t.op,
    as_bigint(t.dur_ns) as dur_ns,
    t.dur_ns / nullif(r.window_ns, 0) as of_window_ratio,
    as_bigint(t.stretches) as stretches,
    r.window_ns,
    r.unknown_ns,
    r.unknown_ns / nullif(r.window_ns, 0) as unknown_ratio,
    case when r.unknown_ns <= largest_unknown_ratio() * r.window_ns and r.clocks_reason is null then l.bound_by end as bound_by,
    case
        when r.clocks_reason is not null then r.clocks_reason
        when r.unknown_ns > largest_unknown_ratio() * r.window_ns
            then concat(
                format('what the path waited for is unknown in {:.0f} % of the window, ', 100 * r.unknown_ns / r.window_ns),
                format('over {:.0f} %', 100 * largest_unknown_ratio()),
                format('; {:.0f} % are before the recording of rank {}', 100 * r.late_ns / r.window_ns, r.late_rank)
                    || format(', which begins {:.3f} ms later than others: a later step (--step), if the recording has one, has no such part', r.late_ns / 1e6),
                '; ' || r.unexplained_reason
            )
        else left_out_reason(r.ranks_left_out)
    end as reason
from totals as t
join windows as r on t.run = r.run
left join largest as l on t.run = l.run
order by t.run, t.dur_ns desc, t.class, t.rank, t.op
