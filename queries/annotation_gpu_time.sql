-- How much GPU time the ranges that a program marks (record_function, NVTX, profiler steps) launched.
-- A row is one run, rank, device and name of a range. A kernel, copy or memset belongs to every range that was open on the
-- launching thread when it was launched, whenever it ran; it is exclusive to the innermost of them. A range inside another
-- of its name adds nothing to the outer one. The thread matters: autograd launches a backward pass from a thread of its
-- own, so that a range around `backward()` holds few launches; `process_gpu_ns` counts what any thread of the process
-- launched meanwhile. GPU times add up over rows that run at once. Launches whose calls were not recorded are in no range.
-- /// query
-- title = "GPU time of annotations"
-- needs = ["annotations"]
-- show = ["run", "rank", "device", "annotation", "ranges", "dur_ns", "gpu_ns", "of_gpu_sum_ratio"]
-- chart = { kind = "bars", x = "annotation", y = ["process_gpu_ns", "gpu_ns", "exclusive_gpu_ns"], by = "run" }
-- [params]
-- common = ["run", "rank", "device"]
-- annotation = { type = "text", example = "^forward", about = "only ranges whose name this regular expression finds" }
-- [columns]
-- common = ["run", "rank", "device"]
-- annotation = "Name of the range."
-- ranges = "Ranges of that name."
-- dur_ns = "Durations on the host of those inside no other of the name, added up."
-- gpu_rows = "Kernels, copies, memsets and whole graphs launched inside them."
-- gpu_ns = "Their durations, added up."
-- exclusive_gpu_ns = "The part of gpu_ns that was launched inside no range within."
-- process_gpu_ns = "Durations of what any thread of the process launched while such a range was open, added up."
-- gpu_sum_ns = "Durations of all kernels, copies, memsets and graphs of the device, added up."
-- of_gpu_sum_ratio = "gpu_ns / gpu_sum_ns."
-- timed_ranges = "Ranges with a valid start and duration; a mark, or a range that was never closed, holds nothing."
-- overlapping_ranges = "Ranges that begin inside another and end after it: they are the inner range of no other."
-- [report]
-- section = "time"
-- order = 3
-- show_if = "gpu_rows > 0"
-- without = "no range launched work on a GPU: record CPU and CUDA activities together"
-- ok_text = "No range launches more than 30 % of a device's work itself: it is spread over many ranges, or over ranges within them."
-- unknown = "What the ranges launch is not known: no work of a device was launched inside one."
-- [[report.findings]]
-- when = "exclusive_gpu_ns > 0.3 * nullif(gpu_sum_ns, 0)"
-- by = "exclusive_gpu_ns"
-- text = "[{where}: ]the ranges {annotation} launch, outside ranges within them, {exclusive_gpu_ns of gpu_sum_ns} of the work on the GPU."
-- advice = "Look for the kernels of that range first; mark finer ranges inside it."
-- ///
with marked as materialized (
    select
        row_number() over () as id,
        run, source, rank, pid, tid, name, name as part, start_ns, end_ns,
        case when has_valid_interval(start_ns, end_ns) then dur_ns end as measured_ns, is_listed
    from (
        select *, true as is_listed from annotations
        union all
        select *, false from around_annotations  -- names of what was launched before a scope of executions
    )
    where scope = 'cpu' and matches(run, $run) and matches(rank, $rank)
),
api as not materialized (
    from filtered_calls($run, $rank)
),
activity as (
    select
        run, source, rank, pid, device, correlation,
        count(*) as gpu_rows,
        coalesce(sum(dur_ns) filter (has_valid_interval(start_ns, end_ns)), 0) as gpu_ns
    from gpu_activity
    where matches(run, $run) and matches(rank, $rank) and matches(device, $device)
    group by run, source, rank, pid, device, correlation
),
launches as materialized (
    select
        row_number() over () as id,
        run, source, pid, call_tid as tid, call_start_ns as at_ns, device, gpu_ns, gpu_rows
    from with_calls('activity', 'api')
    where call_start_ns is not null
),
devices_seen as (
    select run, rank, device, sum(gpu_ns) as gpu_sum_ns
    from activity
    group by run, rank, device
),
listed as (
    from marked where is_listed
),
process_ranges as (
    select run, source, pid, null as tid, id, part, start_ns, end_ns from marked
),
process_launches as (
    select run, source, pid, null as tid, at_ns, device, gpu_ns, gpu_rows from launches
),
sums as (  -- one kind of sum a branch: of the outer ranges on their thread, of the innermost, of the outer in the process
    select o.id, w.device, w.gpu_ns, w.gpu_rows, 0 as exclusive_gpu_ns, 0 as process_gpu_ns
    from outermost('marked') as o
    join summed_within('marked', 'launches') as w using (id)
    union all
    select i.parent, l.device, 0, 0, l.gpu_ns, 0
    from innermost('marked', 'launches') as i
    join launches as l using (id)
    union all
    select o.id, w.device, 0, 0, 0, w.gpu_ns
    from outermost('process_ranges') as o
    join summed_within('process_ranges', 'process_launches') as w using (id)
),
by_device as (
    select
        m.run, m.rank, m.name, s.device,
        sum(s.gpu_ns) as gpu_ns,
        sum(s.gpu_rows) as gpu_rows,
        sum(s.exclusive_gpu_ns) as exclusive_gpu_ns,
        sum(s.process_gpu_ns) as process_gpu_ns
    from sums as s
    join marked as m using (id)
    group by m.run, m.rank, m.name, s.device
),
durations as (
    select m.run, m.rank, m.name, sum(m.measured_ns) as dur_ns
    from outermost('listed')
    join listed as m using (id)
    group by m.run, m.rank, m.name
),
crossings as (
    select m.run, m.rank, m.name, count(*) as overlapping_ranges
    from nesting('listed') as n
    join listed as m using (id)
    where n.crosses
    group by m.run, m.rank, m.name
),
counts as (
    select
        run, rank, name, count(*) filter (is_listed) as ranges, count(measured_ns) filter (is_listed) as timed_ranges
    from marked
    where $annotation is null or regexp_matches(name, $annotation)
    group by run, rank, name
)
select
    c.run, c.rank, v.device,
    c.name as annotation,
    c.ranges,
    as_bigint(coalesce(d.dur_ns, 0)) as dur_ns,
    as_bigint(coalesce(b.gpu_rows, 0)) as gpu_rows,
    as_bigint(coalesce(b.gpu_ns, 0)) as gpu_ns,
    as_bigint(coalesce(b.exclusive_gpu_ns, 0)) as exclusive_gpu_ns,
    as_bigint(coalesce(b.process_gpu_ns, 0)) as process_gpu_ns,
    as_bigint(coalesce(v.gpu_sum_ns, 0)) as gpu_sum_ns,
    coalesce(b.gpu_ns, 0) / nullif(v.gpu_sum_ns, 0) as of_gpu_sum_ratio,
    c.timed_ranges,
    coalesce(x.overlapping_ranges, 0) as overlapping_ranges
from counts as c
left join devices_seen as v on c.run = v.run and c.rank = v.rank
left join by_device as b
    on c.run = b.run and c.rank = b.rank and c.name is not distinct from b.name and v.device is not distinct from b.device
left join durations as d on c.run = d.run and c.rank = d.rank and c.name is not distinct from d.name
left join crossings as x on c.run = x.run and c.rank = x.rank and c.name is not distinct from x.name
where c.ranges > 0 or b.process_gpu_ns > 0
order by c.run, c.rank, v.device, process_gpu_ns desc, annotation
