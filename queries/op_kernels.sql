-- Which op launched which kernels, and for kernels of a backward pass, which forward op they belong to.
-- A row is one run, rank, device, op, forward op and kernel name. The op is the innermost one that ran when the kernel was
-- launched, on the launching thread; where the launch was not recorded, the one whose id the kernel carries; NULL where
-- there is neither. The forward op is the one that made the autograd node whose backward launched the kernel: of the ops
-- with the node's sequence number the one that began last (where several threads have that number, it is not known).
-- A kernel that a graph replays belongs to the op of its capture, where a run of the store has it (see graph_replays).
-- Durations add up over kernels that run at once, so the shares are of the sum, not of the time that passed.
-- /// query
-- title = "Kernels by op"
-- needs = ["kernels"]
-- show = ["run", "rank", "op", "forward_op", "kernel", "calls", "dur_ns", "of_kernel_sum_ratio"]
-- chart = { kind = "bars", x = "op", y = ["dur_ns"], by = "run" }
-- hints = [
--     { when = "misses_captures($run, $rank, $captures_from)", text = "kernels of graphs have no op: no run that was read has their capture; graph_replays finds the run that does: name it with --captures-from" },
-- ]
-- [params]
-- common = ["run", "rank", "device"]
-- min_kernel_ns = { default = 0, about = "only rows whose kernels took at least that long, added up" }
-- captures_from = "common"
-- [columns]
-- common = ["run", "rank", "device"]
-- op = "Name of the op that launched; NULL where no op did, or it is not known."
-- forward_op = "Name of the forward op, of a kernel launched by its backward; NULL for other kernels, and where not known."
-- kernel = "common"
-- calls = "Executions."
-- dur_ns = "Durations of the executions, added up."
-- kernel_sum_ns = "common"
-- of_kernel_sum_ratio = "common"
-- backward_calls = "Executions that the backward of an autograd node launched."
-- by_launch = "Executions whose op was found through their launch."
-- by_external_id = "Executions whose op was found through the id that they carry."
-- [report]
-- section = "kernels"
-- order = 4
-- ok_text = "No kernel that an op launches to compute takes more than 20 % of its device's kernel time."
-- unknown = "Which op launches which kernel is not known: no kernel belongs to a recorded op. Record the processor beside the GPU: `activities=[CPU, CUDA]` of the PyTorch profiler."
-- [[report.findings]]
-- when = "case when op is not null then dur_ns > 0.2 * nullif(kernel_sum_ns, 0) and kernel not ilike 'nccl%' end"
-- by = "dur_ns"
-- text = "[{where}: ]{op}[, of the backward of {forward_op},] launches {kernel}, which takes {dur_ns of kernel_sum_ns} of the kernel time."
-- advice = "Look at the shapes and the precision that go into the op: lower precision, another memory layout, or `torch.compile` select another kernel."
-- ///
with sums as not materialized (
    from op_kernel_times where matches(run, $run) and matches(rank, $rank) and matches(device, $device)
),
totals as (
    select run, rank, device, sum(dur_ns) as kernel_sum_ns from sums group by run, rank, device
),
shares as (
    select s.*, t.kernel_sum_ns
    from sums as s
    join totals as t on s.run = t.run and s.rank = t.rank and s.device is not distinct from t.device
)
select
    run, rank, device, op, forward_op, kernel,
    as_bigint(calls) as calls,
    as_bigint(dur_ns) as dur_ns,
    as_bigint(kernel_sum_ns) as kernel_sum_ns,
    dur_ns / nullif(kernel_sum_ns, 0) as of_kernel_sum_ratio,
    as_bigint(backward_calls) as backward_calls,
    as_bigint(by_launch) as by_launch,
    as_bigint(by_external_id) as by_external_id
from shares
where dur_ns >= $min_kernel_ns
order by run, rank, device, shares.dur_ns desc, op, forward_op, kernel
