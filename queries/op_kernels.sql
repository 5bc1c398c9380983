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
with executions as not materialized (
    select
        run, source, rank, pid, device, name, correlation, external_id, graph_node, start_ns, end_ns, stream,
        case when has_valid_interval(start_ns, end_ns) then dur_ns else 0 end as dur_ns
    from kernels
    where matches(run, $run) and matches(rank, $rank) and matches(device, $device)
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
points as materialized (
    from linked_points('launched', 'api', 'host_ops', 'replayed')
),
called_points as not materialized (
    from points where op is null
),
found_ops as (
    select id, parent as op, true as by_launch
    from innermost('host_ops', 'called_points')
    union all
    select id, op, false from points where op is not null
),
found_forward as (
    select i.id, f.name as forward_op
    from innermost_backward('host_ops', 'points') as i
    left join forward_ops('host_ops') as b on i.op = b.id
    left join host_ops as f on b.forward = f.id
),
found as (
    select
        w.kind, o.name as op, f.forward_op,
        count(*) as calls,
        sum(w.dur_ns) as dur_ns,
        count(f.id) as backward_calls,
        count(*) filter (p.by_launch) as by_launch,
        count(*) filter (not p.by_launch) as by_external_id
    from works as w
    left join found_ops as p using (id)
    left join host_ops as o on p.op = o.id
    left join found_forward as f on w.id = f.id
    group by w.kind, o.name, f.forward_op
),
sums as (
    select
        k.run, k.rank, k.device, f.op, f.forward_op, k.name as kernel,
        sum(f.calls) as calls,
        sum(f.dur_ns) as dur_ns,
        sum(f.backward_calls) as backward_calls,
        sum(f.by_launch) as by_launch,
        sum(f.by_external_id) as by_external_id
    from found as f
    join kinds as k using (kind)
    group by k.run, k.rank, k.device, f.op, f.forward_op, k.name
),
shares as (
    select *, sum(dur_ns) over (partition by run, rank, device) as kernel_sum_ns from sums
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
