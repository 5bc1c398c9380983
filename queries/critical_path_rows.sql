-- The critical path of a run, row by row.
-- A row is one stretch of the path; the stretches of a window follow each other without gaps. A row of the trace of which
-- only a part is on the path counts with that part. How the path is found, and what it is in a scope: see critical_path.
-- /// query
-- title = "Rows of the critical path"
-- needs = ["kernels", "memcpys", "memsets", "graph_launches", "ops", "api_calls"]
-- subject = "time"
-- show = ["run", "number", "rank", "at_ns", "dur_ns", "class", "name", "cause"]
-- hints = [
--     { when = "exists (from processes_apart($run, $rank))", text = "the clocks of CPU and GPU are apart, and times from one to the other mean little; tracelab doctor --check sync_before_end prints by how much" },
-- ]
-- [params]
-- common = ["run", "rank"]
-- class = { type = "text", example = "communication", about = "only rows of this class" }
-- step = { type = "integer", example = 3, about = "only this step: from its first start on any rank to its last end" }
-- step_name = "common"
-- [columns]
-- run = "common"
-- number = "Place on the path, from 1."
-- rank = "common"
-- at_ns = "Start, since the start of the window, in a scope of the first one."
-- dur_ns = "Length."
-- class = "Class, as in critical_path."
-- kind = "gpu, cpu or gap: the time before a row of a GPU."
-- name = "Name of the kernel, op or call; of a gap that of the row behind it."
-- op = "The innermost op around it, or around its launch."
-- device = "common"
-- stream = "Stream of a GPU row."
-- tid = "Thread of a CPU row."
-- start_ns = "Start by the rank's own clock."
-- cause = "What it waited for at its start: launch, stream, event, inferred_event, sync, collective, thread, handover, backward or start."
-- ///
select run, number, rank, at_ns, dur_ns, class, kind, name, op, device, stream, tid, start_ns, cause
from path_rows
where matches(run, $run) and matches(rank, $rank) and matches(class, $class)
    and $step_name is not null and step is not distinct from $step
-- /// if ordered = false
order by run, number
-- /// end
