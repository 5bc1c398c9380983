-- How evenly all-to-alls load the ranks, as when tokens go to experts.
-- A row is one run, process group and rank with all-to-alls. What a rank receives is its load: the elements that it gets are
-- those of its experts. The mean is over the ranks of the group that are in the run. Their wait for the last rank is taken off
-- the time, where it is known (see collective_wait).
-- /// query
-- title = "Balance of experts"
-- needs = ["kernels"]
-- subject = "communication"
-- show = [
--     "run", "rank", "group_name", "kernels", "received_elements",
--     "of_mean_ratio", "imbalance_ratio", "transfer_ns",
-- ]
-- chart = { kind = "bars", x = "rank", y = ["received_elements"], by = "group_name" }
-- hints = [
--     { when = "lacks_all_to_alls($run)", text = "no all-to-all is recorded; record a model whose tokens go to experts on several ranks", empty = true },
-- ]
-- [params]
-- common = ["run", "rank"]
-- [columns]
-- common = ["run", "rank"]
-- group_name = "Process group."
-- role = "Role of the group (see process_groups)."
-- kernels = "All-to-alls of the rank."
-- received_elements = "Elements that the rank received in them; NULL where the count of one is not recorded."
-- mean_elements = "Mean over the ranks of the group, rounded down; NULL where the count of one is not known."
-- of_mean_ratio = "received_elements / mean_elements."
-- largest_elements = "The most that one of these ranks received."
-- imbalance_ratio = "largest_elements / mean_elements."
-- size_bytes = "Sizes of the all-to-alls, added up: the larger one of what is sent and received."
-- dur_ns = "common"
-- transfer_ns = "dur_ns less the waits."
-- mean_transfer_ns = "Mean over the ranks of the group, rounded down."
-- of_mean_transfer_ratio = "transfer_ns / mean_transfer_ns."
-- reason = "Why the elements are not compared. PyTorch's profiler (2.1 or newer) records the counts with ProfilerActivity.CPU."
-- ///
with communication as not materialized (
    from communication_kernels where in_scope and matches(run, $run)
),
groups as materialized (
    from role_groups('communication_kernels')
),
waits as (
    select m.id, w.wait_ns
    from matched_collectives as m
    join collective_waits as w on m.run = w.run and m.number = w.number and m.rank = w.rank
    where w.wait_ns is not null
),
exchanged as (
    select
        c.run, c.rank, c.group_name, c.role,
        count(*) as kernels,
        count(*) - count(c.out_elements) as uncounted,
        case when count(c.out_elements) = count(*) then sum(c.out_elements) end as received_elements,
        sum(c.size_bytes) as size_bytes,
        coalesce(sum(c.measured_ns), 0) as dur_ns,
        coalesce(sum(c.measured_ns), 0) - coalesce(sum(w.wait_ns), 0) as transfer_ns,
        any_value(c.group_ranks) as members
    from with_role('communication', 'groups') as c
    left join waits as w on c.id = w.id
    where c.collective = 'all_to_all'
    group by c.run, c.rank, c.group_name, c.role
),
means as (
    select
        *,
        sum(kernels) over same_group as group_kernels,
        sum(uncounted) over same_group as group_uncounted,
        case when group_uncounted = 0 then floor(avg(received_elements) over same_group) end as mean_elements,
        case when group_uncounted = 0 then max(received_elements) over same_group end as largest_elements,
        floor(avg(transfer_ns) over same_group) as mean_transfer_ns
    from exchanged
    window same_group as (partition by run, group_name, members)
)
select
    run, rank, group_name, role, kernels,
    as_bigint(means.received_elements) as received_elements,
    as_bigint(means.mean_elements) as mean_elements,
    means.received_elements / nullif(means.mean_elements, 0) as of_mean_ratio,
    as_bigint(means.largest_elements) as largest_elements,
    means.largest_elements / nullif(means.mean_elements, 0) as imbalance_ratio,
    as_bigint(means.size_bytes) as size_bytes,
    as_bigint(means.dur_ns) as dur_ns,
    as_bigint(means.transfer_ns) as transfer_ns,
    as_bigint(means.mean_transfer_ns) as mean_transfer_ns,
    means.transfer_ns / nullif(means.mean_transfer_ns, 0) as of_mean_transfer_ratio,
    case
        when means.group_uncounted > 0
            then format('no element count in {} of {} all-to-alls of the group', means.group_uncounted, means.group_kernels)
    end as reason
from means
where matches(rank, $rank)
order by run, group_name, rank
