-- What hides the communication and the copies of a scope: work of the same GPU at the same time, in the scope or not. A scope
-- chooses the rows that an answer is about; whether they are exposed is a fact of the whole recording.

-- out_of_scope_layers: the rows of out_of_scope_activity with their layer: 0 compute and whole graphs, 1 communication, 2 copies
-- and memsets. A row hides those of higher layers.
create or replace view out_of_scope_layers as
with _others as (
    select * exclude (kind), kind as part from out_of_scope_activity
)
select
    run, source, rank, device,
    case when part in ('memcpy', 'memset') then 2 when class = 'communication' then 1 else 0 end::tinyint as layer,
    start_ns, end_ns
from with_class('_others');
comment on view out_of_scope_layers is 'one row of out_of_scope_activity and its layer';

-- out_of_scope_classes: the kernels of out_of_scope_activity with their class.
create or replace view out_of_scope_classes as
select run, source, rank, device, class, start_ns, end_ns from with_class('left_out_kernels');
comment on view out_of_scope_classes is 'one kernel that the scope leaves out, and its class';

-- hiding_compute(kernels, activity): what hides communication: the rows of a relation with_class() that do not communicate, the
-- whole graphs among rows of gpu_activity, and compute outside of the scope.
create or replace macro hiding_compute(kernels, activity) as table
select run, source, rank, device, start_ns, end_ns from query_table(kernels) where class <> 'communication'
union all
select run, source, rank, device, start_ns, end_ns from query_table(activity) where kind = 'graph'
union all
select run, source, rank, device, start_ns, end_ns from out_of_scope_layers where layer = 0;

-- lane_sums(lanes, rows): the columns of layer_parts(), of rows (lane, middle_ns, layer, start_ns, end_ns) on lanes. A row is one run,
-- source, rank and device.
create or replace macro lane_sums(lanes, rows) as table
select
    run, source, rank, device,
    last_ns - first_ns as window_ns,
    coalesce(in_1_ns, 0) as compute_ns,
    coalesce(in_3_ns - in_2_ns, 0) as exposed_comm_ns,
    coalesce(in_5_ns - in_4_ns, 0) as exposed_memory_ns,
    coalesce(in_6_ns - in_5_ns + in_4_ns - in_3_ns + in_2_ns - in_1_ns, 0) as out_of_scope_ns,
    last_ns - first_ns - coalesce(in_6_ns, 0) as idle_ns,
    coalesce(comm_ns, 0) as comm_ns,
    coalesce(memory_ns, 0) as memory_ns,
    coalesce(busy_ns, 0) as busy_ns
from query_table(lanes)
left join layer_sums(rows) using (lane);

-- lane_parts(lanes, rows): layer_parts() of rows (lane, middle_ns, layer, start_ns, end_ns) on lanes.
create or replace macro lane_parts(lanes, rows) as table
select
    run, rank, device,
    as_bigint(sum(window_ns)) as window_ns,
    as_bigint(sum(compute_ns)) as compute_ns,
    as_bigint(sum(exposed_comm_ns)) as exposed_comm_ns,
    as_bigint(sum(exposed_memory_ns)) as exposed_memory_ns,
    as_bigint(sum(out_of_scope_ns)) as out_of_scope_ns,
    as_bigint(sum(idle_ns)) as idle_ns,
    as_bigint(sum(comm_ns)) as comm_ns,
    as_bigint(sum(memory_ns)) as memory_ns,
    as_bigint(sum(busy_ns)) as busy_ns
from lane_sums(lanes, rows)
group by run, rank, device;

-- layer_parts(rows): where the time of each device goes, of a relation with `layer`: 0 compute, 1 communication, 2 copies and memsets,
-- from 3 on the same of rows outside of the scope. A row is one run, rank and device. compute_ns, exposed_comm_ns,
-- exposed_memory_ns, out_of_scope_ns and idle_ns add up to window_ns: each nanosecond counts for the first layer that runs,
-- one of the scope before the same one outside of it. comm_ns and memory_ns are the time of these layers, hidden or not, and
-- busy_ns that of any layer of the scope.
create or replace macro layer_parts(rows) as table
with _lanes as materialized (
    from lanes(rows)
),
_rows as materialized (
    select lane, middle_ns, layer::tinyint as layer, start_ns, end_ns from with_lane(rows, '_lanes')
)
from lane_parts('_lanes', '_rows');

-- activity_sums(activity, kinds): the durations of all rows of gpu_activity on each device, of its kernels, of those that no rule
-- knows, the time in which at least one kernel ran, and the window. `kinds` has the kernels with_class().
create or replace macro activity_sums(activity, kinds) as table
with _device_sums as (
    select
        run, rank, device,
        as_bigint(coalesce(sum(dur_ns) filter (has_valid_interval(start_ns, end_ns)), 0)) as gpu_activity_ns
    from query_table(activity)
    group by run, rank, device
),
_kernel_sums as (
    select
        run, rank, device,
        as_bigint(sum(dur_ns)) as kernel_sum_ns,
        as_bigint(coalesce(sum(dur_ns) filter (class = 'unclassified'), 0)) as unclassified_ns
    from query_table(kinds)
    where has_valid_interval(start_ns, end_ns)
    group by run, rank, device
)
select
    d.run, d.rank, d.device, d.gpu_activity_ns,
    zero_if_missing(s.run, s.kernel_sum_ns) as kernel_sum_ns,
    zero_if_missing(s.run, s.unclassified_ns) as unclassified_ns,
    zero_if_missing(b.run, b.busy_ns) as kernel_busy_ns,
    zero_if_missing(w.run, w.window_ns) as window_ns
from _device_sums as d
left join _kernel_sums as s on d.run = s.run and d.rank = s.rank and d.device is not distinct from s.device
left join busy(kinds) as b on d.run = b.run and d.rank = b.rank and d.device is not distinct from b.device
left join scope_windows(activity) as w on d.run = w.run and d.rank = w.rank and d.device is not distinct from w.device;
