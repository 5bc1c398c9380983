-- Time of each device: compute, exposed communication, exposed copies, idle.
-- A row is one run, rank and device with GPU activity. Each nanosecond of the window counts once, for the first that
-- applies: compute, then communication, then memory, then idle; the parts add up to `window_ns`. With a scope they are of its
-- rows, and the time in which others run, or hide communication and memory of the scope, is `out_of_scope_ns`. A gap is that of
-- the row which ends it: the window of a scope begins with the gap before its first row. Kernels that no rule of the classifier
-- knows count as compute, and so do CUDA graphs recorded as a whole, with any nodes inside them.
-- /// query
-- title = "GPU time breakdown"
-- needs = ["kernels", "memcpys", "memsets", "graph_launches"]
-- on_cpu = "cpu_breakdown"
-- show = ["run", "rank", "device", "window_ns", "compute_ns", "exposed_comm_ns", "exposed_memory_ns", "idle_ns", "out_of_scope_ns"]
-- chart = { kind = "stacked", x = "rank", y = ["compute_ns", "exposed_comm_ns", "exposed_memory_ns", "out_of_scope_ns", "idle_ns"], by = "run" }
-- [params]
-- common = ["run", "rank", "device"]
-- [columns]
-- common = ["run", "rank", "device", "window_ns", "compute_ns", "exposed_comm_ns", "exposed_memory_ns", "idle_ns"]
-- comm_ns = "Time in which a communication kernel ran."
-- overlapped_comm_ns = "Time in which communication and compute, in the scope or not, ran together; comm_ns = exposed + overlapped."
-- graph_ns = "Time in which a CUDA graph recorded as a whole ran (part of compute_ns; its kernels are not known)."
-- kernel_sum_ns = "Durations of all kernels, added up."
-- unclassified_ns = "Durations of the kernels whose name no rule matches, added up."
-- unclassified_ratio = "common"
-- out_of_scope_ns = "Time in which rows outside of the scope ran, such as those of other steps: alone, or compute while only communication or memory of the scope ran, or communication while only memory did; and the gaps before them. 0 without a scope."
-- [report]
-- section = "time"
-- order = 1
-- row = "GPU[s]"
-- ok_text = "No device idles for more than 20 % of its window, or has exposed communication or exposed copies for more than 10 % of it."
-- unknown = "Where the time goes is not known: nothing that ran on a device took any time that is known."
-- [[report.findings]]
-- when = "idle_ns > 0.2 * nullif(window_ns, 0)"
-- by = "idle_ns"
-- cost = { ns = "idle_ns", adds = true, topics = ["data", "host", "launches", "dependency"] }
-- next = "idle_causes"
-- text = "{where} is idle for {idle_ns of window_ns} of its window."
-- every = "{where} are idle for {idle_ns of window_ns} of their windows."
-- advice = "See the causes of idle time below: a late host, waiting for other work, or overhead."
-- [[report.findings]]
-- when = "exposed_comm_ns > 0.1 * nullif(window_ns, 0)"
-- by = "exposed_comm_ns"
-- cost = { ns = "exposed_comm_ns", adds = true, topics = ["waiting", "transfer", "receiving"] }
-- what_if = { change = "scale", class = "communication", factor = 0, without = "With communication that takes no time" }
-- next = "nccl_share"
-- text = "[{where}: ]exposed communication takes {exposed_comm_ns of window_ns} of the window."
-- every = "{where}: exposed communication takes {exposed_comm_ns of window_ns} of the windows."
-- advice = "Overlap communication with the backward pass (larger buckets, a stream of its own), or look for the straggler."
-- [[report.findings]]
-- when = "exposed_memory_ns > 0.1 * nullif(window_ns, 0)"
-- by = "exposed_memory_ns"
-- cost = { ns = "exposed_memory_ns", adds = true, topics = ["copies"], detail = 1 }
-- what_if = { change = "no_copies", class = "memory", without = "With copies and memsets that take no time" }
-- next = "memcpy_throughput"
-- text = "[{where}: ]exposed copies take {exposed_memory_ns of window_ns} of the window."
-- every = "{where}: exposed copies take {exposed_memory_ns of window_ns} of the windows."
-- advice = "See which copies they are (memcpy_throughput): pin host memory and copy the next batch while this one computes; within the device, write results in place and set fewer buffers to 0."
-- ///
with activity as not materialized (  -- each use reads only its own kinds and columns
    select run, source, rank, device, kind, start_ns, end_ns
    from gpu_activity
    where matches(run, $run) and matches(rank, $rank) and matches(device, $device)
),
executions as not materialized (
    select run, source, rank, pid, device, stream, name, start_ns, end_ns, dur_ns, correlation
    from kernels
    where matches(run, $run) and matches(rank, $rank) and matches(device, $device)
),
kinds as materialized (  -- without the class, of which each row would have a copy
    select
        run, source, rank, device, start_ns, end_ns,
        class = 'communication' as communicates, class = 'unclassified' as is_unclassified
    from with_class('executions')
),
graphs as (
    select run, source, rank, device, start_ns, end_ns from activity where kind = 'graph'
),
outside as materialized (
    from idle_outside('activity')
),
widened as not materialized (
    select run, source, rank, device, start_ns, end_ns from activity
    union all
    from outside
),
others as materialized (  -- of a scope: what runs outside of it
    select run, source, rank, device, layer, start_ns, end_ns from out_of_scope_rows('widened', 'out_of_scope_layers')
),
layers as not materialized (
    select run, source, rank, device, case when communicates then 1 else 0 end as layer, start_ns, end_ns from kinds
    union all
    select run, source, rank, device, case when kind = 'graph' then 0 else 2 end, start_ns, end_ns
    from activity
    where kind <> 'kernel'
    union all
    select run, source, rank, device, 3 + layer, start_ns, end_ns from others
    union all
    select run, source, rank, device, 3, start_ns, end_ns from outside
),
devices_seen as (
    select distinct run, rank, device from activity
),
sums as (
    select
        run, rank, device,
        as_bigint(sum(end_ns - start_ns)) as kernel_sum_ns,
        as_bigint(coalesce(sum(end_ns - start_ns) filter (is_unclassified), 0)) as unclassified_ns
    from kinds
    where has_valid_interval(start_ns, end_ns)
    group by run, rank, device
)
select
    d.run, d.rank, d.device,
    zero_if_missing(p.run, p.window_ns) as window_ns,
    zero_if_missing(p.run, p.compute_ns) as compute_ns,
    zero_if_missing(p.run, p.exposed_comm_ns) as exposed_comm_ns,
    zero_if_missing(p.run, p.exposed_memory_ns) as exposed_memory_ns,
    zero_if_missing(p.run, p.idle_ns) as idle_ns,
    zero_if_missing(p.run, p.comm_ns) as comm_ns,
    zero_if_missing(p.run, p.comm_ns - p.exposed_comm_ns) as overlapped_comm_ns,
    zero_if_missing(g.run, g.busy_ns) as graph_ns,
    zero_if_missing(s.run, s.kernel_sum_ns) as kernel_sum_ns,
    zero_if_missing(s.run, s.unclassified_ns) as unclassified_ns,
    s.unclassified_ns / nullif(s.kernel_sum_ns, 0) as unclassified_ratio,
    zero_if_missing(p.run, p.out_of_scope_ns) as out_of_scope_ns
from devices_seen as d
left join layer_parts('layers') as p on d.run = p.run and d.rank = p.rank and d.device is not distinct from p.device
left join busy('graphs') as g on d.run = g.run and d.rank = g.rank and d.device is not distinct from g.device
left join sums as s on d.run = s.run and d.rank = s.rank and d.device is not distinct from s.device
order by d.run, d.rank, d.device
