-- How long each kernel runs that Inductor generated, and the file that its source is in.
-- A row is one run, rank, kernel and file. The file and the hash are arguments of the op that launches the kernel
-- (`kernel_file`, `kernel_hash`; torch 2.4 and newer); kernels of different graphs have the same name, and differ by file.
-- `fused_ops` are the operations that the name lists; names over 100 characters are cut off. Kernels that the program itself
-- wrote in Triton are not generated.
-- /// query
-- title = "Generated kernels"
-- needs = ["kernels"]
-- subject = "kernels"
-- show = ["run", "rank", "kernel", "kind", "kernels", "dur_ns", "of_gpu_activity_ratio", "kernel_file"]
-- chart = { kind = "bars", x = "kernel", y = ["dur_ns"], by = "run" }
-- hints = [
--     { when = "not exists (from kernel_classes where is_generated_kernel(name))", text = "no kernel that Inductor generated is recorded; compile the model with torch.compile", empty = true },
-- ]
-- [params]
-- common = ["run", "rank"]
-- [columns]
-- common = ["run", "rank", "kernel"]
-- kind = "pointwise, reduction, persistent reduction, foreach, combo, split scan, template, or unnamed (torch 2.0)."
-- fused_ops = "The operations in it, as the name lists them; NULL where it lists none."
-- kernels = "common"
-- dur_ns = "common"
-- mean_ns = "dur_ns over the executions with a valid start and duration, rounded to whole ns."
-- max_ns = "common"
-- of_gpu_activity_ratio = "common"
-- gpu_activity_ns = "Durations of all GPU rows of the rank, added up."
-- kernel_file = "File of its source; NULL where the op that launched it does not name it."
-- kernel_hash = "Hash of its source, which is also the name of the file."
-- ///
with generated as (
    select name from (select distinct name from kernels) where is_generated_kernel(name)
),
rows_of_kernels as materialized (
    select
        row_number() over () as id, run, source, rank, pid, name, correlation, external_id,
        case when has_valid_interval(start_ns, end_ns) then dur_ns end as gpu_ns
    from kernels
    semi join hint_small('generated') using (name)
    where matches(run, $run) and matches(rank, $rank)
),
api as (
    select run, source, pid, tid, correlation, start_ns, end_ns
    from api_calls
    where matches(run, $run) and matches(rank, $rank)
),
host_ops as materialized (
    select
        row_number() over () as id, run, source, pid, tid, start_ns, end_ns, external_id,
        args ->> '$.kernel_file' as kernel_file,
        args ->> '$.kernel_hash' as kernel_hash
    from ops
    where matches(run, $run) and matches(rank, $rank) and starts_with(name, 'triton_')
),
points as materialized (
    select id, run, source, pid, external_id, call_tid, call_start_ns from with_calls('rows_of_kernels', 'api')
),
launchers as (
    from launching_ops('points', 'host_ops')
),
sums as (
    select
        k.run, k.rank, k.name, o.kernel_file, o.kernel_hash,
        count(*) as kernels,
        count(k.gpu_ns) as timed,
        coalesce(sum(k.gpu_ns), 0) as dur_ns,
        max(k.gpu_ns) as max_ns
    from rows_of_kernels as k
    left join launchers as l on k.id = l.id
    left join host_ops as o on l.op = o.id
    group by k.run, k.rank, k.name, o.kernel_file, o.kernel_hash
),
totals as (
    select run, rank, sum(dur_ns) as gpu_activity_ns
    from gpu_activity
    where matches(run, $run) and matches(rank, $rank) and has_valid_interval(start_ns, end_ns)
    group by run, rank
)
select
    s.run, s.rank,
    s.name as kernel,
    case regexp_extract(s.name, '^triton_([a-z]*)', 1)
        when 'poi' then 'pointwise'
        when 'red' then 'reduction'
        when 'per' then 'persistent reduction'
        when 'for' then 'foreach'
        when 'mix' then 'combo'
        when 'spl' then 'split scan'
        when '' then 'unnamed'
        else 'template'
    end as kind,
    nullif(regexp_extract(s.name, '_fused_(\D.*?)_?\d*$', 1), '') as fused_ops,
    s.kernels,
    as_bigint(s.dur_ns) as dur_ns,
    as_bigint(round(s.dur_ns / nullif(s.timed, 0))) as mean_ns,
    s.max_ns,
    s.dur_ns / nullif(t.gpu_activity_ns, 0) as of_gpu_activity_ratio,
    as_bigint(coalesce(t.gpu_activity_ns, 0)) as gpu_activity_ns,
    s.kernel_file, s.kernel_hash
from sums as s
left join totals as t on s.run = t.run and s.rank = t.rank
order by s.run, s.rank, s.dur_ns desc, s.name, s.kernel_file
