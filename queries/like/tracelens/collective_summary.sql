-- How fast collectives are, as TraceLens (`NcclAnalyser`, the summary of those that make ranks wait for each other) defines
-- it.
-- A row is one run, collective, data type and number of elements that a rank contributes. It differs from
-- collective_summary: a collective's time is the shortest of its kernels over the ranks, without more; which kernels are
-- one collective follows from their place in time among those of their group and rank, whether or not all ranks are in the
-- run; means are those of the collectives' own figures; a GB is 1024³ bytes; only all-reduce, reduce-scatter, all-gather
-- and all-to-all are in it, and only with the profiler's notes. Ranks whose clocks do not agree show as skew.
-- /// query
-- title = "Collective bandwidth, as defined by TraceLens"
-- needs = ["collectives"]
-- show = [
--     "run", "collective_name", "dtype", "full_msg_bytes", "count",
--     "comm_latency_mean_ns", "skew_in_start_mean_ns", "bus_bw_mean_gib_per_s",
-- ]
-- chart = { kind = "bars", x = "collective_name", y = ["algo_bw_mean_gib_per_s", "bus_bw_mean_gib_per_s"], by = "run" }
-- [params]
-- common = ["run", "rank"]
-- [columns]
-- common = ["run"]
-- collective_name = "The profiler's name of the collective."
-- dtype = "Data type."
-- in_elements = "Elements that a rank contributes."
-- group_name = "Process group; of several the first by name."
-- group_size = "Ranks in that group."
-- full_msg_bytes = "What a rank contributes, or for all-gather receives."
-- comm_latency_mean_ns = "Mean over the collectives of the shortest kernel of each, rounded."
-- skew_in_start_mean_ns = "Mean of the time between the first and the last rank's start, rounded."
-- skew_in_end_mean_ns = "Mean of the time between the first and the last rank's end, rounded."
-- algo_bw_mean_gib_per_s = "Mean of full_msg_bytes over the latency, in 1024³ bytes a second."
-- bus_bw_mean_gib_per_s = "Mean of that times 2(n-1)/n for all-reduce, (n-1)/n for the others."
-- count = "Collectives."
-- total_comm_latency_ns = "Their latencies, added up."
-- ///
with noted as (
    select
        run, rank, start_ns, dur_ns, try(start_ns + dur_ns) as end_ns,
        lower(raw_name) as collective_name,
        dtype, in_elements, out_elements, group_size,
        coalesce(group_name, 'Unknown_Group') as group_name
    from collectives
    where origin = 'kernel' and matches(run, $run) and matches(rank, $rank)
),
placed as (
    select
        *,
        row_number() over (partition by run, group_name, rank order by start_ns, end_ns, collective_name) as place
    from noted
    where has_valid_interval(start_ns, end_ns)
),
typed as (
    select
        *,
        case
            when collective_name in ('allreduce', 'allreduce_coalesced') then 'allreduce'
            when collective_name in ('reducescatter', '_reduce_scatter_base', 'reduce_scatter_tensor_coalesced') then 'reducescatter'
            when collective_name in (
                'allgather', 'all_gather', '_allgather_base', 'all_gather_into_tensor_coalesced',
                'allgather_into_tensor_coalesced'
            ) then 'allgather'
            when collective_name = 'all_to_all' then 'alltoall'
        end as kind,
        map {
            'Float': 4, 'Int': 4, 'Long': 8, 'BFloat16': 2, 'Bool': 1, 'Byte': 1, 'Double': 8, 'Half': 2, 'Short': 2
        }[dtype] as element_bytes
    from placed
),
instances as (
    select
        run, group_name, place,
        any_value(collective_name order by rank) as collective_name,
        any_value(kind order by rank) as kind,
        any_value(dtype order by rank) as dtype,
        any_value(in_elements order by rank) as in_elements,
        any_value(group_size order by rank) as group_size,
        any_value(
            element_bytes::hugeint * case when kind = 'allgather' then out_elements else in_elements end order by rank
        ) as msg_bytes,
        min(dur_ns) as latency_ns,
        max(start_ns) - min(start_ns) as start_skew_ns,
        max(end_ns) - min(end_ns) as end_skew_ns
    from typed
    group by run, group_name, place
    having any_value(kind order by rank) is not null
),
rated as (
    select
        *,
        msg_bytes / nullif(latency_ns, 0) * 1e9 / 1073741824 as algo_gib_per_s,
        case kind when 'allreduce' then 2 else 1 end * (group_size - 1) / nullif(group_size, 0) as factor
    from instances
)
select
    run, collective_name, dtype, in_elements,
    min(group_name) as group_name,
    any_value(group_size order by rated.group_name)::bigint as group_size,
    as_bigint(any_value(msg_bytes order by rated.group_name)) as full_msg_bytes,
    as_bigint(round(avg(latency_ns))) as comm_latency_mean_ns,
    as_bigint(round(avg(start_skew_ns))) as skew_in_start_mean_ns,
    as_bigint(round(avg(end_skew_ns))) as skew_in_end_mean_ns,
    avg(algo_gib_per_s) as algo_bw_mean_gib_per_s,
    avg(algo_gib_per_s * factor) as bus_bw_mean_gib_per_s,
    count(*) as count,
    as_bigint(sum(latency_ns)) as total_comm_latency_ns
from rated
group by run, collective_name, dtype, in_elements
order by run, total_comm_latency_ns desc, collective_name, dtype, in_elements
