-- Where the time of each rank goes, as TraceLens (`GPUEventAnalyser`) defines it.
-- A row is one run and rank. It differs from gpu_breakdown: all devices of a rank are one; memsets count as computation; the
-- exposed part of copies is its own, without memsets; communication is what is called nccl, rccl or cross_device_reduce.
-- Computation goes first, then communication, then copies; with idle_ns, and out_of_scope_ns of a scope, the three parts add up to total_ns. CUDA graphs
-- recorded as a whole are computation. Work that no recorded call launched is left out, such as what was launched before the
-- recording, and so are memsets of HIP, which PyTorch does not link to their calls; `--linked-only false` counts them, as
-- TraceLens does with include_unlinked_kernels. TraceLens can also report recomputation apart; here it is computation.
-- /// query
-- title = "GPU time breakdown, as defined by TraceLens"
-- needs = ["kernels", "memcpys", "memsets"]
-- show = [
--     "run", "rank", "total_ns", "computation_ns", "exposed_comm_ns",
--     "exposed_memcpy_ns", "idle_ns", "idle_percent",
-- ]
-- chart = { kind = "stacked", x = "rank", y = ["computation_ns", "exposed_comm_ns", "exposed_memcpy_ns", "out_of_scope_ns", "idle_ns"], by = "run" }
-- [params]
-- common = ["run", "rank"]
-- linked_only = { default = true, example = false }
-- doubles = "common"
-- [columns]
-- common = ["run", "rank"]
-- computation_ns = "Time in which a kernel that does not communicate ran, or a memset."
-- exposed_comm_ns = "Time in which communication ran, and no computation."
-- exposed_memcpy_ns = "Time in which a copy ran, and neither computation nor communication."
-- busy_ns = "Time in which anything ran."
-- idle_ns = "total_ns less busy_ns and out_of_scope_ns."
-- total_ns = "First start to last end."
-- total_comm_ns = "Time in which communication ran."
-- total_memcpy_ns = "Time in which a copy ran."
-- computation_percent = "computation_ns in percent of total_ns."
-- exposed_comm_percent = "exposed_comm_ns in percent of total_ns."
-- exposed_memcpy_percent = "exposed_memcpy_ns in percent of total_ns."
-- busy_percent = "busy_ns in percent of total_ns."
-- idle_percent = "idle_ns in percent of total_ns."
-- out_of_scope_ns = "Time in which rows outside of the scope ran, alone or hiding communication and copies of it, as in gpu_breakdown; 0 without a scope."
-- ///
with names as materialized (  -- some hundred, of a million kernels
    select name
    from (select distinct name from unscoped_activity where kind = 'kernel' and matches(run, $run) and matches(rank, $rank))
    where regexp_matches(name, 'nccl|rccl|cross_device_reduce', 'i')
),
gpu as not materialized (
    select run, source, rank, kind, name, correlation, start_ns, dur_ns, end_ns
    from gpu_activity
    where matches(run, $run) and matches(rank, $rank) and has_valid_interval(start_ns, end_ns)
),
calls as (
    select run, source, correlation
    from unscoped_api_calls
    where $linked_only and name not like 'hipMemset%' and matches(run, $run) and matches(rank, $rank)
),
missing as materialized (
    from unlinked('gpu', 'calls')
),
activity as not materialized (  -- each use reads only its own kinds and columns
    select
        run, source, rank,
        null::integer as device,
        kind, name,
        case when $doubles then double_us_to_ns(double_us(start_ns)) else start_ns end as start_ns,
        case when $doubles then double_us_to_ns(double_us(start_ns) + dur_ns / 1000) else end_ns end as end_ns
    from gpu
    anti join missing
        on gpu.run = missing.run and gpu.source = missing.source and gpu.correlation is not distinct from missing.correlation
),
others as materialized (  -- of a scope: what runs outside of it
    select
        run, source, rank, null::integer as device, kind, name,
        case when $doubles then double_us_to_ns(double_us(start_ns)) else start_ns end as start_ns,
        case when $doubles then double_us_to_ns(double_us(start_ns) + dur_ns / 1000) else end_ns end as end_ns
    from out_of_scope_activity
    where matches(run, $run) and matches(rank, $rank) and has_valid_interval(start_ns, end_ns)
),
placed as not materialized (
    select run, source, rank, device, kind, name, start_ns, end_ns, 0 as first_layer from activity
    union all
    select run, source, rank, device, kind, name, start_ns, end_ns, 3 from out_of_scope_rows('activity', 'others')
),
layers as not materialized (
    select
        run, source, rank, device, start_ns, end_ns,
        first_layer + case
            when kind = 'memcpy' then 2
            when kind = 'kernel' and coalesce(name in (select name from names), false) then 1
            else 0
        end as layer
    from placed
),
parts as (
    select
        run, rank, idle_ns, out_of_scope_ns, busy_ns, exposed_comm_ns,
        compute_ns as computation_ns,
        exposed_memory_ns as exposed_memcpy_ns,
        window_ns as total_ns,
        comm_ns as total_comm_ns,
        memory_ns as total_memcpy_ns
    from layer_parts('layers')
)
select
    run, rank, computation_ns, exposed_comm_ns, exposed_memcpy_ns, busy_ns, idle_ns, total_ns, total_comm_ns, total_memcpy_ns,
    percent_of(computation_ns, total_ns, 15) as computation_percent,
    percent_of(exposed_comm_ns, total_ns, 15) as exposed_comm_percent,
    percent_of(exposed_memcpy_ns, total_ns, 15) as exposed_memcpy_percent,
    percent_of(busy_ns, total_ns, 15) as busy_percent,
    percent_of(idle_ns, total_ns, 15) as idle_percent,
    out_of_scope_ns
from parts
order by run, rank
