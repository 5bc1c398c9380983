-- What the critical path of one instance of an annotation is spent on, as Holistic Trace Analysis (HTA 0.5.0,
-- `critical_path_analysis`) defines it.
-- A row is one run, rank and type of edge. It differs from critical_path: each rank has a path of its own, the longest chain
-- of weights between starts and ends of ops, calls and rows of streams; edges between outermost ops of a thread, and those of
-- synchronizations, weigh nothing, nor do calls that may wait, so that the weights do not add up to the window; times are
-- whole microseconds. A row of a stream follows its launch only where its queue was empty, else the row before it. Waits of
-- ranks for each other and nodes of CUDA graphs are left out. It takes no scope: `in_annotation` and `instance` choose a part.
-- /// query
-- title = "Critical path, as defined by HTA"
-- needs = ["kernels", "memcpys", "memsets", "ops", "api_calls"]
-- chart = { kind = "stacked", x = "rank", y = ["dur_ns"], by = "type" }
-- [params]
-- common = ["run", "rank"]
-- in_annotation = { default = "", example = "ProfilerStep", about = "a part of the annotation's name; empty for all of the recording" }
-- instance = { default = 0, about = "which instance of the annotation, from 0" }
-- [columns]
-- common = ["run", "rank"]
-- type = "operator, dependency, kernel_launch_delay, kernel_kernel_delay or sync_dependency."
-- bound_by = "cpu_bound, gpu_compute_bound, gpu_communication_bound, gpu_kernel_kernel_overhead or gpu_kernel_launch_overhead; NULL without weight."
-- edges = "Edges on the path."
-- dur_ns = "Their weights, added up."
-- path_nodes = "Nodes on the path of the rank."
-- ///
select
    run, rank, type, bound_by,
    count(*) as edges,
    as_bigint(sum(dur_ns)) as dur_ns,
    max(path_nodes) as path_nodes
from hta_path_edges
where matches(run, $run) and matches(rank, $rank) and $in_annotation is not null and $instance is not null
group by run, rank, type, bound_by
order by run, rank, dur_ns desc, type, bound_by
