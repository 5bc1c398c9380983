-- How many ops, kernels and API calls each run of a sweep made, in all, in a step and in an epoch.
-- A row is one run; the counts are of what the profiler recorded, added up over ranks. Larger batches and more GPUs make
-- fewer calls only because an epoch then has fewer steps: what a step calls stays about the same. Convolutions are counted
-- at three levels: every op that has conv in its name (one convolution is four nested ops of PyTorch, and others
-- backward), those of them that lie in no other one, and the kernels that the classifier calls convolutions, which are
-- other ones again, for libraries split them. A call an epoch is a call a step of a rank, times its iterations and the
-- ranks.
-- /// query
-- title = "Calls of a sweep"
-- needs = ["ops", "kernels"]
-- show = [
--     "run", "model", "batch_size", "layout", "status",
--     "op_calls_per_step", "kernels_per_step", "api_calls_per_step",
-- ]
-- chart = { kind = "curves", x = "batch_size", y = ["op_calls_per_step", "kernels_per_step", "op_calls_per_epoch"], by = "layout", panel = ["model", "variant"] }
-- [params]
-- run = "common"
-- sweep = { example = "generated-scaling" }
-- common = ["model", "step_name"]
-- conv_name = { default = "(?i)conv", about = "an op is a convolution where this regular expression finds its name" }
-- [columns]
-- common = ["run", "sweep", "model", "batch_size", "layout", "variant", "repeat", "status", "recorded_steps"]
-- op_calls = "Calls of ops; NULL where the run has no recording."
-- kernels = "common"
-- api_calls = "Calls of the runtime and the driver."
-- conv_op_calls = "Calls of ops whose name is a convolution's."
-- outer_conv_op_calls = "Of these, calls inside no other one of them."
-- conv_kernels = "Kernels of the classes winograd, implicit_gemm and convolution."
-- op_calls_per_step = "op_calls / recorded_steps."
-- kernels_per_step = "kernels / recorded_steps."
-- api_calls_per_step = "api_calls / recorded_steps."
-- conv_op_calls_per_step = "conv_op_calls / recorded_steps."
-- conv_kernels_per_step = "conv_kernels / recorded_steps."
-- op_calls_per_epoch = "op_calls_per_step × iterations × ranks, rounded."
-- kernels_per_epoch = "kernels_per_step × iterations × ranks, rounded."
-- iterations = "common"
-- ranks = "common"
-- [report]
-- section = "sweeps"
-- order = 10
-- needs = ["steps"]
-- show_if = "common"
-- ok_text = "No run calls 1,000 ops or more in a step."
-- unknown = "How many ops a step calls is not known: no run has a recording with both."
-- [[report.findings]]
-- when = "op_calls_per_step >= 1000"
-- by = "op_calls_per_step"
-- text = "{run} calls {op_calls_per_step} ops[ and launches {kernels_per_step} kernels] in a step."
-- advice = "Each call costs the processor some microseconds: fuse or compile, or use CUDA graphs, where the GPU is faster than that."
-- ///
with selected as materialized (
    select * from cells where matches(run, $run) and matches(sweep, $sweep) and matches(model, $model)
),
executions as not materialized (
    select run, name from kernels semi join selected using (run)
),
conv_ops as materialized (
    select row_number() over () as id, run, source, pid, tid, null as part, start_ns, end_ns
    from ops
    semi join selected using (run)
    semi join (select name from (select distinct name from ops) where regexp_matches(name, $conv_name)) using (name)
),
marked as (
    select run, source, rank, pid, tid, name, scope, start_ns, end_ns from annotations semi join selected using (run)
),
counts as (
    select run, 'steps' as what, count(*) as calls from steps_of('marked', $step_name) group by run
    union all
    select run, 'ops', count(*) from ops semi join selected using (run) group by run
    union all
    select run, 'kernels', count(*) from executions group by run
    union all
    select run, 'api', count(*) from api_calls semi join selected using (run) where api in ('runtime', 'driver') group by run
    union all
    select run, 'conv ops', count(*) from conv_ops group by run
    union all
    select o.run, 'outer conv ops', count(*) from outermost('conv_ops') join conv_ops as o using (id) group by o.run
    union all
    select k.run, 'conv kernels', count(*)
    from executions as k
    join classify('executions') as c on k.name is not distinct from c.name
    where c.class in ('winograd', 'implicit_gemm', 'convolution')
    group by k.run
    union all
    select run, 'ranks', count(distinct rank)
    from (select run, rank from ops union all select run, rank from kernels)
    semi join selected using (run)
    group by run
),
sums as (
    select
        run,
        max(calls) filter (what = 'steps') as recorded_steps,
        coalesce(max(calls) filter (what = 'ops'), 0) as op_calls,
        coalesce(max(calls) filter (what = 'kernels'), 0) as kernels,
        coalesce(max(calls) filter (what = 'api'), 0) as api_calls,
        coalesce(max(calls) filter (what = 'conv ops'), 0) as conv_op_calls,
        coalesce(max(calls) filter (what = 'outer conv ops'), 0) as outer_conv_op_calls,
        coalesce(max(calls) filter (what = 'conv kernels'), 0) as conv_kernels,
        max(calls) filter (what = 'ranks') as ranks
    from counts
    group by run
)
select
    c.run, c.sweep, c.model,
    c.batch_size::bigint as batch_size,
    c.layout, c.variant,
    c.repeat::bigint as repeat,
    c.status,
    n.recorded_steps, n.op_calls, n.kernels, n.api_calls, n.conv_op_calls, n.outer_conv_op_calls, n.conv_kernels,
    n.op_calls / n.recorded_steps as op_calls_per_step,
    n.kernels / n.recorded_steps as kernels_per_step,
    n.api_calls / n.recorded_steps as api_calls_per_step,
    n.conv_op_calls / n.recorded_steps as conv_op_calls_per_step,
    n.conv_kernels / n.recorded_steps as conv_kernels_per_step,
    as_bigint(round(n.op_calls / n.recorded_steps * s.iterations * n.ranks)) as op_calls_per_epoch,
    as_bigint(round(n.kernels / n.recorded_steps * s.iterations * n.ranks)) as kernels_per_epoch,
    s.iterations,
    coalesce(n.ranks, 0) as ranks
from selected as c
left join sums as n on c.run = n.run and n.ranks > 0
left join run_speeds as s on c.run = s.run
order by c.sweep, c.model, c.variant, c.batch_size, c.kind, c.processors, c.parallelism, c.repeat, c.run
