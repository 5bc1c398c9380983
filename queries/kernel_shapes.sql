-- How each kernel was launched: blocks and threads, registers and shared memory; and whether that occupies the whole device.
-- A row is one run, rank, device, kernel and launch shape. `blocks_per_sm` below 1 leaves multiprocessors without a block
-- for as long as the kernel runs alone; a little above a whole number leaves most of them waiting in the last round.
-- `occupancy_ratio` is what the profiler estimated from the shape, not what it measured; it is empty where none is recorded.
-- Kernels without a recorded shape are a row of their own, with the shape's columns empty.
-- /// query
-- title = "Kernel launch shapes"
-- needs = ["kernels"]
-- show = ["run", "rank", "kernel", "blocks", "threads_per_block", "calls", "dur_ns", "occupancy_ratio"]
-- chart = { kind = "scatter", x = "blocks_per_sm", y = ["dur_ns"], by = "run" }
-- [params]
-- common = ["run", "rank", "device"]
-- shapes = { type = "integer", example = 10, about = "only that many shapes of each device, those with the largest dur_ns" }
-- [columns]
-- common = ["run", "rank", "device", "kernel"]
-- grid_x = "Thread blocks in x."
-- grid_y = "Thread blocks in y."
-- grid_z = "Thread blocks in z."
-- block_x = "Threads of a block in x."
-- block_y = "Threads of a block in y."
-- block_z = "Threads of a block in z."
-- registers = "Registers a thread."
-- shared_bytes = "Shared memory of a block, static and dynamic."
-- calls = "Executions of that shape."
-- dur_ns = "Durations of the executions, added up."
-- mean_ns = "common"
-- min_ns = "common"
-- max_ns = "common"
-- blocks = "Thread blocks of an execution: grid_x · grid_y · grid_z."
-- threads_per_block = "block_x · block_y · block_z."
-- sm_count = "Multiprocessors of the device, where the source lists it."
-- blocks_per_sm = "blocks / sm_count."
-- occupancy_ratio = "Occupancy as the profiler estimated it from the shape, 0 to 1."
-- kernel_sum_ns = "common"
-- of_kernel_sum_ratio = "common"
-- timed_calls = "Executions with a valid start and duration."
-- [report]
-- section = "kernels"
-- order = 3
-- ok_text = "Kernels that compute with fewer blocks than the device has multiprocessors take at most 5 % of the kernel time each."
-- unknown = "Which kernels leave multiprocessors free is not known: the recording does not have their number, or how many blocks were launched."
-- [[report.findings]]
-- when = "blocks_per_sm < 1 and dur_ns > 0.05 * nullif(kernel_sum_ns, 0) and kernel not ilike 'nccl%'"
-- by = "dur_ns"
-- cost = { ns = "dur_ns * (1 - blocks_per_sm)", adds = ["kernel"], topics = ["parallelism"], leads = false }
-- text = "[{where}: ]{kernel} was launched with {blocks} blocks on {sm_count} multiprocessors, and takes {dur_ns of kernel_sum_ns} of the kernel time."
-- advice = "A larger batch occupies the whole device; else run independent kernels beside it on another stream. One that communicates is meant to be small."
-- ///
with executions as (
    select
        run, rank, device, name, grid_x, grid_y, grid_z, block_x, block_y, block_z, registers, occupancy_ratio,
        coalesce(
            shared_static_bytes + shared_dynamic_bytes, shared_static_bytes, shared_dynamic_bytes,
            try_cast(try(args->>'$."shared memory"') as bigint)  -- Kineto has the sum only
        ) as shared_bytes,
        case when has_valid_interval(start_ns, end_ns) then dur_ns end as measured_ns
    from kernels
    where matches(run, $run) and matches(rank, $rank) and matches(device, $device)
),
by_shape as (
    select
        run, rank, device, name, grid_x, grid_y, grid_z, block_x, block_y, block_z, registers, shared_bytes,
        count(*) as calls,
        count(measured_ns) as timed_calls,
        coalesce(sum(measured_ns), 0) as dur_ns,
        min(measured_ns) as min_ns,
        max(measured_ns) as max_ns,
        max(occupancy_ratio) as occupancy_ratio
    from executions
    group by run, rank, device, name, grid_x, grid_y, grid_z, block_x, block_y, block_z, registers, shared_bytes
),
ranked as (
    select
        *,
        sum(dur_ns) over (partition by run, rank, device) as kernel_sum_ns,
        row_number() over (
            partition by run, rank, device
            order by dur_ns desc, name, grid_x, grid_y, grid_z, block_x, block_y, block_z, registers, shared_bytes
        ) as place
    from by_shape
),
multiprocessors as (
    select run, rank, device, max(sm_count) as sm_count
    from devices
    group by run, rank, device
)
select
    s.run, s.rank, s.device,
    s.name as kernel,
    s.grid_x::bigint as grid_x, s.grid_y::bigint as grid_y, s.grid_z::bigint as grid_z,
    s.block_x::bigint as block_x, s.block_y::bigint as block_y, s.block_z::bigint as block_z,
    s.registers::bigint as registers,
    s.shared_bytes, s.calls,
    as_bigint(s.dur_ns) as dur_ns,
    as_bigint(round(s.dur_ns / nullif(s.timed_calls, 0))) as mean_ns,
    s.min_ns, s.max_ns,
    as_bigint(s.grid_x::hugeint * s.grid_y * s.grid_z) as blocks,
    as_bigint(s.block_x::hugeint * s.block_y * s.block_z) as threads_per_block,
    m.sm_count::bigint as sm_count,
    s.grid_x::hugeint * s.grid_y * s.grid_z / nullif(m.sm_count, 0) as blocks_per_sm,
    s.occupancy_ratio,
    as_bigint(s.kernel_sum_ns) as kernel_sum_ns,
    s.dur_ns / nullif(s.kernel_sum_ns, 0) as of_kernel_sum_ratio,
    s.timed_calls
from ranked as s
left join multiprocessors as m on s.run = m.run and s.rank = m.rank and s.device = m.device
where $shapes is null or s.place <= $shapes
order by s.run, s.rank, s.device, s.dur_ns desc, s.place
