-- What share of GPU time goes into communication, by each of the four definitions in use.
-- A row is one run, rank, device and kind of collective; `collective = 'all'` is the device's total, 0 where nothing
-- communicates. Communication is every kernel that the classifier calls so or that carries collective metadata, not only
-- names with nccl; copies over NVLink or PCIe are not in it. Two collectives at once count in both rows' busy time and once
-- in the total's. A kernel's time holds its waiting for other ranks.
-- of_gpu_activity is what nvprof calls Time(%) (there over all devices), of_kernel_sum that of `nsys stats`, of_window
-- that of HTA and TraceLens.
-- /// query
-- title = "Communication share"
-- needs = ["kernels"]
-- show = ["run", "rank", "device", "collective", "kernels", "dur_ns", "exposed_ns", "of_window_ratio"]
-- chart = { kind = "bars", x = "collective", y = ["of_gpu_activity_ratio", "of_kernel_sum_ratio", "of_kernel_busy_ratio", "of_window_ratio"], by = "run" }
-- [params]
-- common = ["run", "rank", "device", "step_name"]
-- [columns]
-- run = "common"
-- rank = "common"
-- device = "common"
-- collective = "broadcast, all_reduce, all_gather, reduce_scatter, reduce, all_to_all, send_recv, other or unknown; all is the device's total."
-- kernels = "Communication kernels."
-- dur_ns = "common"
-- busy_ns = "common"
-- exposed_ns = "The part of busy_ns in which no other kernel and no whole graph ran, in the scope or not."
-- gpu_activity_ns = "common"
-- kernel_sum_ns = "common"
-- kernel_busy_ns = "Time in which at least one kernel of the device ran."
-- common = ["window_ns", "of_gpu_activity_ratio", "of_kernel_sum_ratio", "of_kernel_busy_ratio", "of_window_ratio"]
-- unclassified_ns = "Durations of the device's kernels whose name no rule matches, added up: they may be communication."
-- exposed_kind = "Of all: kind and process group of the collectives with most of exposed_ns."
-- exposed_step = "Of all: the step with most of that, by the marks of the rank."
-- [report]
-- section = "communication"
-- order = 1
-- row = "GPU[s]"
-- row_key = "concat_ws(' ', rank, device)"
-- show_if = "kernels > 0"
-- without = "no kernel communicates: record several ranks of a distributed job, or several GPUs of one process"
-- ok_text = "Exposed communication takes at most 10 % of every device's window."
-- unknown = "How much communication is exposed is not known: nothing that ran on a device took any time that is known."
-- [[report.findings]]
-- when = "collective = 'all' and exposed_ns > 0.1 * nullif(window_ns, 0)"
-- by = "exposed_ns"
-- cost = { ns = "exposed_ns", rows = "collective = 'all'", adds = true, topics = ["waiting", "transfer", "receiving"], detail = 1 }
-- what_if = { change = "scale", class = "communication", factor = 0, without = "With communication that takes no time" }
-- next = "collective_summary"
-- text = "[{where}: ]communication takes {busy_ns of window_ns} of the window, and {exposed_ns of window_ns} while nothing computes[, most in {exposed_kind}][, worst in step {exposed_step}]."
-- every = "{where}: communication takes {busy_ns of window_ns} of the windows, and {exposed_ns of window_ns} while nothing computes[, most in {exposed_kind}][, worst in step {exposed_step} of rank {rank}]."
-- step = "exposed_step"
-- advice = "Overlapping can gain at most the second figure; collective_summary has the collectives, and how much of them is waiting where the traces of all ranks are one run."
-- ///
with
-- /// if kept = true
described as materialized (
    select c.*, k.start_clock_ns, k.end_clock_ns
    from communication_kernels as c
    left join communication_clocks as k on c.run = k.run and c.id = k.id
    where c.id > 0 and c.in_scope and matches(c.run, $run) and matches(c.rank, $rank) and matches(c.device, $device)
),
communication as (
    select
        run, source, rank, device, start_ns, end_ns, start_clock_ns, end_clock_ns,
        named_collective as collective,
        measured_ns as dur_ns
    from described
),
-- /// end
-- /// if kept = false
activity as not materialized (
    select run, source, rank, device, kind, start_ns, end_ns, dur_ns
    from gpu_activity
    where matches(run, $run) and matches(rank, $rank) and matches(device, $device)
),
executions as not materialized (
    select run, source, rank, pid, device, stream, name, start_ns, end_ns, dur_ns, correlation
    from kernels
    where matches(run, $run) and matches(rank, $rank) and matches(device, $device)
),
kinds as materialized (
    select run, source, rank, device, start_ns, end_ns, dur_ns, class, collective from with_class('executions')
),
described as not materialized (
    from communication_kernels where in_scope and matches(rank, $rank) and matches(device, $device)
),
communication as (
    select run, source, rank, device, start_ns, end_ns, dur_ns, collective from kinds where class = 'communication'
),
compute as (
    from hiding_compute('kinds', 'activity')
),
-- /// end
parts as (
    select * exclude (collective), collective as part from communication
    union all
    select * exclude (collective), 'all' from communication
),
steps as materialized (
    from recorded_steps($run, $rank, $step_name)
),
labelled as (
    select
        run, source, rank, device, start_ns, end_ns,
        -- /// if kept = true
        start_clock_ns, end_clock_ns,
        -- /// end
        'all' as part, label
    from with_label('described')
),
in_steps as materialized (
    from with_entered_step('labelled', 'steps')
),
measured as (  -- in one sweep
    select * exclude (dur_ns) from parts
    union all by name
    select * exclude (label, step) replace (slice_key(part, label, step) as part) from in_steps
),
clipped as materialized (
    -- /// if kept = true
    from clip_to_clocks('measured')
    -- /// end
    -- /// if kept = false
    from clip_to('measured', 'compute')
    -- /// end
),
part_sums as (
    select
        run, rank, device, part,
        count(*) as kernels,
        as_bigint(coalesce(sum(dur_ns) filter (has_valid_interval(start_ns, end_ns)), 0)) as dur_ns
    from parts
    group by run, rank, device, part
),
device_sums as materialized (
    -- /// if kept = true
    from activity_times where matches(run, $run) and matches(rank, $rank) and matches(device, $device)
    -- /// end
    -- /// if kept = false
    from activity_sums('activity', 'kinds')
    -- /// end
),
answers as (
    select run, rank, device, 'all' as part from device_sums
    union
    select run, rank, device, part from part_sums
)
select
    a.run, a.rank, a.device,
    a.part as collective,
    zero_if_missing(p.run, p.kernels) as kernels,
    zero_if_missing(p.run, p.dur_ns) as dur_ns,
    zero_if_missing(i.run, i.busy_ns) as busy_ns,
    zero_if_missing(i.run, i.busy_ns - i.inside_ns) as exposed_ns,
    d.gpu_activity_ns, d.kernel_sum_ns, d.kernel_busy_ns, d.window_ns,
    zero_if_missing(p.run, p.dur_ns) / nullif(d.gpu_activity_ns, 0) as of_gpu_activity_ratio,
    zero_if_missing(p.run, p.dur_ns) / nullif(d.kernel_sum_ns, 0) as of_kernel_sum_ratio,
    zero_if_missing(i.run, i.busy_ns) / nullif(d.kernel_busy_ns, 0) as of_kernel_busy_ratio,
    zero_if_missing(i.run, i.busy_ns) / nullif(d.window_ns, 0) as of_window_ratio,
    d.unclassified_ns,
    m.label as exposed_kind,
    m.step as exposed_step
from answers as a
join device_sums as d on a.run = d.run and a.rank = d.rank and a.device is not distinct from d.device
left join part_sums as p
    on a.run = p.run and a.rank = p.rank and a.device is not distinct from p.device and a.part = p.part
left join clipped as i
    on a.run = i.run and a.rank = i.rank and a.device is not distinct from i.device and a.part = i.part
left join most_exposed('in_steps', 'clipped') as m
    on a.run = m.run and a.rank = m.rank and a.device is not distinct from m.device and a.part = m.part
order by a.run, a.rank, a.device, collective
