-- What each kernel of a timeline computed and moved, by the counters that ncu took of the same program.
-- A row is one run, rank, device, kernel, launch shape and kind of match. The counts come from --ncu RUN, else from the
-- timeline's own run, else from the newest run of the same `program`, else from the only run that has any; the time is the
-- timeline's. `match` is how reliable it is: exact (as many executions as profiled launches of that name, grid, block and,
-- where both record it, shared memory), periodic (a multiple of them: one step profiled, many traced), shape (another number
-- of them), other_memory (name, grid and block, and another size of shared memory), function (name without template
-- arguments, grid and block), grid (name and grid), name, or none. The n-th execution is the n-th launch, and begins anew
-- where fewer were profiled. A rank that was not profiled takes the counts of the only one that was.
-- /// query
-- title = "FLOPs and bytes of a timeline's kernels"
-- needs = ["kernels"]
-- show = ["run", "rank", "kernel", "launches", "dur_ns", "achieved_gflop_per_s", "intensity_flop_per_byte", "match"]
-- chart = { kind = "bars", x = "kernel", y = ["dur_ns", "flop", "dram_bytes"], by = "run" }
-- [params]
-- common = ["run", "rank", "device", "ncu", "half"]
-- [columns]
-- run = "common"
-- rank = "common"
-- device = "common"
-- kernel = "common"
-- grid = "Thread blocks in x, y, z."
-- block = "Threads of a block in x, y, z."
-- match = "exact, periodic, shape, other_memory, function, grid, name or none."
-- executions = "Executions on the timeline."
-- launches = "Profiled launches whose counts they take."
-- dur_ns = "Time of the executions on the timeline, added up."
-- flop = "Floating-point operations of the executions; NULL where a metric is missing."
-- dram_bytes = "Bytes read from and written to device memory."
-- common = [
--   "achieved_gflop_per_s", "achieved_gb_per_s", "intensity_flop_per_byte", "kernel_sum_ns", "of_kernel_sum_ratio",
-- ]
-- matched_ns = "Of the device's kernels: the durations of those whose match is exact, periodic or shape, added up."
-- matched_ratio = "matched_ns / kernel_sum_ns."
-- ncu_run = "common"
-- ncu_rank = "The rank that they are of."
-- flop_missing = "common"
-- class = "common"
-- [report]
-- section = "roofline"
-- order = 2
-- needs = ["kernel_metrics"]
-- show_if = "match <> 'none'"
-- without = "no kernel of a timeline was matched with a count of ncu: profile the same program with ncu, and ingest its report beside the timeline"
-- unknown = "How fast the kernels computed is not known: a metric of ncu that counts their operations is missing, see `flop_missing`."
-- [[report.findings]]
-- when = "achieved_gflop_per_s > 0"
-- by = "dur_ns"
-- text = "[{where}: ]of the kernels whose operations are known, {kernel} takes the longest, {dur_ns of kernel_sum_ns} of the kernel time, at {achieved_gflop_per_s}[ and {intensity_flop_per_byte}]."
-- advice = "The roofline above shows whether memory or arithmetic holds such a kernel back."
-- [[report.findings]]
-- when = "matched_ns < 0.9 * nullif(kernel_sum_ns, 0)"
-- by = "kernel_sum_ns - matched_ns"
-- text = "[{where}: ]the counts are those of the very kernels for only {matched_ns of kernel_sum_ns} of the kernel time."
-- advice = "Profile a whole step with ncu, of the same program with the same batch size."
-- ///
with pairs as materialized (
    from timed_pairs($run, $ncu)
),
executions as not materialized (  -- each use reads only its own columns
    select k.*, p.ncu_run
    from kernels as k
    join pairs as p on k.run = p.run
    where matches(k.rank, $rank) and matches(k.device, $device) and has_valid_interval(k.start_ns, k.end_ns)
),
profiled as materialized (
    select * replace (row_number() over () as id)  -- a number joins faster than the four columns that an id is made of
    from ncu_launches
    where run in (select ncu_run from pairs)
),
totals as (
    select l.id, l.dram_bytes, f.flop, f.missing
    from launch_flop('profiled', $half) as f
    join profiled as l on f.id = l.id
    where f.precision = 'all'
),
shapes as (
    select
        m.run, m.rank, m.device, m.name, m.grid, m.block, m.match, m.ncu_run, m.ncu_rank,
        sum(m.executions)::bigint as executions,
        count(distinct m.id) as launches,
        sum(m.dur_ns) as dur_ns,
        complete_sum(t.flop * m.executions) as flop,
        complete_sum(t.dram_bytes * m.executions::hugeint) as dram_bytes,
        list_sort(list_distinct(flatten(list(coalesce(t.missing, []))))) as missing
    from match_launches('executions', 'profiled') as m
    left join totals as t on m.id = t.id
    group by m.run, m.rank, m.device, m.name, m.grid, m.block, m.match, m.ncu_run, m.ncu_rank
),
shares as (
    select
        *,
        sum(dur_ns) over alike as kernel_sum_ns,
        coalesce(sum(dur_ns) filter (match in ('exact', 'periodic', 'shape')) over alike, 0) as matched_ns
    from shapes
    window alike as (partition by run, rank, device)
)
select
    s.run, s.rank, s.device,
    s.name as kernel,
    shown_shape(s.grid) as grid,
    shown_shape(s.block) as block,
    s.match, s.executions, s.launches,
    as_bigint(s.dur_ns) as dur_ns,
    as_bigint(round(s.flop)) as flop,
    as_bigint(s.dram_bytes) as dram_bytes,
    s.flop / nullif(s.dur_ns, 0) as achieved_gflop_per_s,
    s.dram_bytes / nullif(s.dur_ns, 0) as achieved_gb_per_s,
    s.flop / nullif(s.dram_bytes, 0) as intensity_flop_per_byte,
    as_bigint(s.kernel_sum_ns) as kernel_sum_ns,
    s.dur_ns / nullif(s.kernel_sum_ns, 0) as of_kernel_sum_ratio,
    as_bigint(s.matched_ns) as matched_ns,
    s.matched_ns / nullif(s.kernel_sum_ns, 0) as matched_ratio,
    s.ncu_run,
    s.ncu_rank::bigint as ncu_rank,
    nullif(array_to_string(s.missing, ', '), '') as flop_missing,
    c.class
from shares as s
join classify('shapes') as c on s.name is not distinct from c.name
order by s.run, s.rank, s.device, s.dur_ns desc, kernel, grid, block, match
