-- How much of the communication of each parallelism is hidden behind compute.
-- A row is one run, rank and role of process groups (see process_groups). Time in which two kernels of one role run counts
-- once, and is exposed where no kernel computes and no whole graph runs; communication of another role does not hide it.
-- /// query
-- title = "Overlap by parallelism"
-- needs = ["kernels", "annotations"]
-- subject = "communication"
-- show = ["run", "rank", "role", "kernels", "comm_ns", "exposed_ns", "hidden_ratio", "of_window_ratio"]
-- chart = { kind = "stacked", x = "role", y = ["exposed_ns", "hidden_ns"], by = "rank" }
-- [params]
-- common = ["run"]
-- rank = { type = "integer", about = "only this rank" }
-- [columns]
-- common = ["run", "rank"]
-- role = "Role of the groups: tp, pp, dp …"
-- role_source = "description or guessed; of several groups of the role guessed where one is."
-- kernels = "common"
-- comm_ns = "Time in which a kernel of the role ran."
-- exposed_ns = "The part in which no compute ran."
-- hidden_ns = "The rest."
-- hidden_ratio = "hidden_ns / comm_ns."
-- of_window_ratio = "exposed_ns / window_ns."
-- window_ns = "First start to last end of the rank's kernels and graphs, summed over sources and devices."
-- size_bytes = "Sizes of the collectives, added up."
-- ///
select
    run, rank, role, role_source, kernels, comm_ns, exposed_ns, hidden_ns, hidden_ratio, of_window_ratio, window_ns, size_bytes
from role_times
where matches(run, $run) and matches(rank, $rank)
order by run, rank, role
