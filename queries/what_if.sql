-- How long a run would take if rows were shorter, waits fell away, or the network were faster, and what it would be spent on.
-- A row is one run and class on the critical path, before and after the change. tracelab replays the run on all dependencies
-- of critical_path: each row starts when all that it waits for allows, by as much later as in the recording; a collective
-- ends when the last rank has entered, plus each rank's transfer. `change` is scale, the time of the chosen rows times
-- factor; median, the median of rows of the same name that are not chosen (of GPUs only); bandwidth, transfers at factor
-- times the bandwidth; ideal_network, without any transfer; no_copies, where neither copies nor the calls that launch them
-- take time; no_launch_gaps, GPU rows without the lag behind their launch; no_short_gaps, without the lag behind all that
-- they wait for, where it is at most 30 µs; no_waits, where the others do not wait for of_rank, which itself comes as late
-- as before; on_time, where of_rank does its own work before each collective that it enters last in less time, so that it
-- enters with the last but one rank; no_data_waits, threads without the time in the ranges or ops of a data loader. All
-- filters together choose the rows; class compute are all kernels that do not communicate and graphs recorded whole, gpu all rows of
-- GPUs, memory memcpys and memsets, no kernels of class copy; cpu_side what threads do between their waits, data loaders apart. With a step, or a scope of steps or times, only
-- rows that start in it change, and the times are those of its windows, each until threads are where it ended and GPUs have
-- done what they had by then; with a scope of ranges, streams or launches only its rows change. The gain is at most what the change removes from the path, and less where another path takes over. Order and
-- contention stay as recorded. The answer is refused where a replay without a change misses the recorded window by more than
-- 1 %, or where nothing recorded shows what threads did, or what GPUs waited for, in over 20 % of it, for these waits would
-- count as work. Unknown time before the first row of a rank or thread refuses no answer: it counts to the 20 % of
-- critical_path only, and no change makes it shorter, so that class unknown cannot be chosen. It also is refused where over
-- 20 % more of the path after the change is such a wait, or silence of threads that run no op; and where the clocks of CPU
-- and GPU are apart (see critical_path).
-- /// query
-- title = "What if"
-- needs = ["kernels", "memcpys", "memsets", "graph_launches", "ops", "api_calls"]
-- subject = "time"
-- show = ["run", "class", "before_ns", "after_ns", "time_before_ns", "time_after_ns", "gain_ratio", "reason"]
-- chart = { kind = "bars", x = "class", y = ["before_ns", "after_ns"] }
-- hints = [
--     { when = "exists (from processes_apart($run, null))", text = "the clocks of CPU and GPU are apart, and times from one to the other mean little; tracelab doctor --check sync_before_end prints by how much" },
-- ]
-- [params]
-- common = ["run"]
-- change = { default = "scale", choices = ["scale", "median", "bandwidth", "ideal_network", "no_copies", "no_launch_gaps", "no_short_gaps", "no_waits", "on_time", "no_data_waits"], about = "what is different" }
-- factor = { default = 0.5, about = "of scale: times what the chosen rows take; of bandwidth: times the bandwidth" }
-- class = { type = "text", example = "communication", about = "only rows of this class" }
-- kernel = { type = "text", about = "only GPU rows in whose name this regular expression is found" }
-- op = { type = "text", about = "only rows in, or launched in, an op in whose name this regular expression is found" }
-- layer = { type = "text", about = "only rows in, or launched in, a range in whose name this regular expression is found" }
-- module = { type = "text", about = "only rows in, or launched in, an nn.Module in whose name this regular expression is found; a backward op is in its forward op's module" }
-- of_rank = { type = "integer", about = "only rows of this rank" }
-- collective = { type = "text", about = "only collectives in whose kind this regular expression is found" }
-- step = { type = "integer", example = 3, about = "only this step: from its first start on any rank to its last end" }
-- step_name = "common"
-- [columns]
-- run = "common"
-- class = "Class, as in critical_path."
-- before_ns = "Its time on the path of the recording."
-- after_ns = "Its time on the path after the change."
-- time_before_ns = "Time of the run, of the step, or of the windows of a scope, as recorded."
-- time_after_ns = "The same after the change; NULL where that is refused."
-- gain_ns = "time_before_ns less time_after_ns."
-- gain_ratio = "gain_ns / time_before_ns."
-- changed_rows = "Stretches of threads and rows of GPUs that the filters choose."
-- reason = "Why the answer is refused, or which ranks are left out."
-- ///
select
    r.run, c.class, c.before_ns, c.after_ns,
    r.window_ns as time_before_ns,
    r.after_ns as time_after_ns,
    r.window_ns - r.after_ns as gain_ns,
    (r.window_ns - r.after_ns) / nullif(r.window_ns, 0) as gain_ratio,
    r.changed_rows,
    coalesce(r.reason, left_out_reason(r.ranks_left_out)) as reason
from what_if_runs as r
join what_if_classes as c on r.run = c.run
where matches(r.run, $run)
    -- the computed tables depend on the values of all parameters
    and coalesce(
        $change, $class, $kernel, $op, $layer, $module, $collective, $step_name, $factor::varchar, $of_rank::varchar, $step::varchar
    ) is not null
order by r.run, c.before_ns desc, c.class
