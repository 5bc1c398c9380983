"""The tables that Python computes from the rows of a run, and the functions that compute them, declared once."""

import hashlib
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path

from tracelab.resources import QUERIES
from tracelab.table_types import ComputedTable, columns


@cache
def _read_query(name: str) -> str:
    """Return the SQL of a query of the library, without comments and header."""
    lines = (QUERIES / f"{name}.sql").read_text(encoding="utf-8").splitlines()
    return "\n".join(line for line in lines if not line.startswith("--"))


@cache
def hash_code(function: str) -> str:
    """Return a hash of the package of a function `module:name`: what it returns follows from all of its modules."""
    package = import_module(function.partition(":")[0].rpartition(".")[0])
    files = sorted(path for folder in package.__path__ for path in Path(folder).glob("*.py"))
    texts = [path.read_text(encoding="utf-8") for path in files]
    return hashlib.sha256("\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()[:16]


@dataclass(frozen=True)
class Condensation:
    """Tables that a function makes of some relations of a run, and that the store keeps where they have many rows.

    `function` is `module:name`: it takes the rows of the relations by name, and a function to call now and then, and
    returns rows by name. Later processes read these in place of the relations.
    """

    function: str
    relations: tuple[str, ...]


@dataclass(frozen=True)
class Computation:
    """Tables that one function computes, for one run at a time unless `of_many`.

    `function` is `module:name`: it takes the rows of the relations by name, the parameters, and a function to call now
    and then, which raises once the statement is interrupted; it returns the rows of each table by name, without run.
    `relations` are SQL texts that take `$run` and, where they name them, the parameters. `answers` are queries of the
    library that are relations, too, under their names. `params` are those of a query that change the result, with their
    defaults. `row_bytes` is the memory that each row of the relations needs.

    With `of_many`, it computes all runs at once: `$run` is NULL, and the rows returned have their run. With `kept`,
    which implies that, the store keeps the rows of each run until its sources change. With `scope_relations`,
    `relations` are those of the whole recording, and these, read in a scope alone, are what the function applies of it.
    `refused_scope` is the sentence for a scope that has no meaning for the tables. With `condensed`, the function may
    be given what that makes of some relations in their place. With `narrow`, whole numbers of its relations have as few
    bytes as they need, which no SQL may read: it would compute in these. With `kept_by_params`, its tables have few
    rows, and the store keeps those of a large run for each of the last values of the parameters.
    """

    function: str
    relations: dict[str, str]
    params: dict[str, str | int | float | bool | None]
    row_bytes: int
    tables: tuple[ComputedTable, ...]
    answers: tuple[str, ...] = ()
    of_many: bool = False
    kept: bool = False
    scope_relations: dict[str, str] = field(default_factory=dict)
    refused_scope: str | None = None
    condensed: Condensation | None = None
    narrow: bool = False
    kept_by_params: bool = False

    @property
    def texts(self) -> dict[str, str]:
        """All relations as SQL, by name."""
        return self.relations | {name: _read_query(name) for name in self.answers}


_PATH_RELATIONS = {
    "collectives": "from path_collectives('collective_waits', 'rank_clocks', $run)",
    "gpu": "with executions as not materialized (from path_kernels($run)) from path_gpu_rows('executions', $run)",
    "cpu": "from path_cpu_rows($run)",
    "syncs": "from path_syncs($run)",
    "steps": "from path_steps($run, $step_name)",
    "apart": "select rank from processes_apart($run, null)",
    "limits": "select largest_unknown_ratio() as unknown_ratio",
}
_GRAPH = Condensation("tracelab.paths.packing:condense", ("collectives", "gpu", "cpu", "syncs", "apart"))
_PATH_SCOPE = {
    "scope": "from path_scope",
    "times": "select source, from_ns, to_ns from scope_times where run = $run",
    "starts": "from path_starts($run, $step_name)",
    "serving_steps": "from path_serving_steps($run, $step_name)",
    "lanes": "from path_lanes($run)",
}
_STEP_NAME = r"(?i)^(profiler)?step\s*#?\s*\d+$"

COMPUTATIONS: tuple[Computation, ...] = (
    Computation(
        "tracelab.paths.tables:compute_paths",
        _PATH_RELATIONS,
        {"step": None, "step_name": _STEP_NAME},
        600,
        (
            ComputedTable(
                "path_rows",
                "one stretch of a run's critical path; all stretches of a run fill its window",
                columns(
                    ("step", "int64", "The step whose window it is; NULL for all of the recording or scope."),
                    ("number", "int64", "Place on the path, from 1."),
                    ("rank", "int32", "Rank that the stretch is charged to."),
                    ("source", "text", "The source that the row is of."),
                    ("at_ns", "int64", "Start, since the start of the window."),
                    ("dur_ns", "int64", "Length."),
                    (
                        "class",
                        "text",
                        "Class of the kernel; memcpy, memset, cuda_graph; cpu, cpu_unrecorded, data_loader, "
                        "synchronization; or of the gap before a row of a GPU: launch_latency, scheduling, unknown.",
                    ),
                    ("kind", "text", "gpu, cpu or gap."),
                    ("name", "text", "Name of the kernel, op or call; of a gap that of the row behind it."),
                    ("op", "text", "The innermost op around it, or around its launch."),
                    ("device", "int32", "Device of a GPU row."),
                    ("stream", "int64", "Stream of a GPU row."),
                    ("tid", "int64", "Thread of a CPU row."),
                    ("start_ns", "int64", "Start by the rank's own clock."),
                    (
                        "cause",
                        "text",
                        "What it waited for: launch, stream (the row before it), event, inferred_event, sync (a call "
                        "that waits for the GPU), collective (the last rank), thread (the order of its rows), handover "
                        "(another thread), backward (its forward op) or start (nothing that is known).",
                    ),
                ),
            ),
            ComputedTable(
                "path_runs",
                "one run's critical path as a whole",
                columns(
                    ("step", "int64", "The step whose window it is; NULL for all of the recording or scope."),
                    ("window_ns", "int64", "Length of the window, or of all windows of a scope, on aligned clocks."),
                    ("span_ns", "int64", "From the start of the first window to the end of the last one."),
                    ("unknown_ns", "int64", "Time of the path of which the dependency is not known."),
                    ("ranks", "int64", "Ranks that the path may run through."),
                    ("ranks_left_out", "int64", "Ranks without a clock in common with these."),
                    (
                        "clamped",
                        "int64",
                        "Rows that start before what they waited for had ended, by noise of the clocks.",
                    ),
                    ("last_rank", "int32", "The rank that the path ends on."),
                    ("late_rank", "int32", "The rank that the path begins on, where its recording begins late."),
                    ("late_ns", "int64", "How long the path begins with time before that recording: it is unknown."),
                    (
                        "unexplained_ns",
                        "int64",
                        "Of unknown_ns, time of threads of which nothing recorded shows if they worked or waited, or "
                        "what they waited for.",
                    ),
                    ("unexplained_reason", "text", "Which part of the window that is, and what to record; else NULL."),
                    ("clocks_reason", "text", "What shows that the clocks of CPU and GPU are apart; else NULL."),
                ),
            ),
        ),
        scope_relations=_PATH_SCOPE,
        condensed=_GRAPH,
        narrow=True,
    ),
    Computation(
        "tracelab.paths.what_if:compute_what_if",
        _PATH_RELATIONS | {"modules": "from path_modules($run, $module)"},
        {
            "change": None,
            "factor": None,
            "class": None,
            "op": None,
            "kernel": None,
            "layer": None,
            "module": None,
            "of_rank": None,
            "collective": None,
            "step": None,
            "step_name": _STEP_NAME,
        },
        900,
        (
            ComputedTable(
                "what_if_classes",
                "one class on a run's critical path, as recorded and after the change of a query what_if",
                columns(
                    ("class", "text", "Class, as in `path_rows`."),
                    ("before_ns", "int64", "Its time on the path of the recording."),
                    ("after_ns", "int64", "Its time on the path after the change; NULL where that is refused."),
                ),
            ),
            ComputedTable(
                "what_if_runs",
                "one run with the time that it would take after the change of a query what_if",
                columns(
                    ("window_ns", "int64", "Length of the window as recorded."),
                    ("replayed_ns", "int64", "The same by a replay without a change."),
                    ("after_ns", "int64", "The same after the change; NULL where that is refused."),
                    ("changed_rows", "int64", "Stretches of threads and rows of GPUs that the filters choose."),
                    ("reason", "text", "Why it is refused."),
                    ("ranks_left_out", "int64", "Ranks without a clock in common with the others."),
                ),
            ),
        ),
        scope_relations=_PATH_SCOPE,
        condensed=_GRAPH,
        narrow=True,
        kept_by_params=True,
    ),
    Computation(
        "tracelab.paths.hta:compute_hta_paths",
        {"events": "from hta_path_events($run)"},
        {"in_annotation": "", "instance": 0},
        2500,
        (
            ComputedTable(
                "hta_path_edges",
                "one edge of a rank's critical path as HTA defines it",
                columns(
                    ("rank", "int32", "Rank of the process."),
                    ("number", "int64", "Place on the path, from 1."),
                    (
                        "type",
                        "text",
                        "operator, dependency, kernel_launch_delay, kernel_kernel_delay or sync_dependency.",
                    ),
                    ("bound_by", "text", "What HTA takes the edge to be bound by; NULL for edges without weight."),
                    ("dur_ns", "int64", "Weight."),
                    ("name", "text", "Name of the event that the edge begins at."),
                    ("path_nodes", "int64", "Nodes on the path of the rank."),
                ),
            ),
        ),
        refused_scope="critical_path as HTA defines it takes no scope: its path is that of one instance of a range; "
        "choose that with --in-annotation and --instance, or leave out --like",
    ),
    Computation(
        "tracelab.store.rollups:compute_rollups",
        {
            "described": "from run_facts($run)",
            "files": "from source_files($run)",
            "cards": "select run, rank, device, host, uuid, name from devices where matches(run, $run)",
            "speeds": "select run, samples_per_s from run_speeds where matches(run, $run)",
            "trained": "select run, rank, dur_ns from steps where phase = 'train' and matches(run, $run)",
        },
        {"rank": None, "device": None, "skip": 0, "step_name": _STEP_NAME},
        400,
        (
            ComputedTable(
                "rollup_runs",
                "one run in short: settings, files, speed",
                columns(
                    ("began_at", "timestamp", "When it began."),
                    (
                        "began_from",
                        "text",
                        "Where that is from: started_at, or recording, the first kernel or window; NULL: not known.",
                    ),
                    ("host", "text", "Its hosts, each once; of more than three the first and how many more."),
                    ("hosts", "int64", "How many hosts are known."),
                    ("gpu", "text", "Its GPUs, each model once."),
                    ("program", "text", "The program, else the collector's workload."),
                    ("model", "text", "Model name."),
                    ("world_size", "int32", "Processes of the job."),
                    ("global_batch_size", "int32", "Samples a step over all processes."),
                    ("precision", "text", "Precision."),
                    ("parallelism", "text", "Parallelism."),
                    ("git_commit", "text", "Commit of the workload's repository."),
                    ("status", "text", "How the run ended, where it was recorded."),
                    ("files", "int64", "Files."),
                    ("events_skipped", "int64", "Events of these files that could not be read."),
                    ("incomplete", "int64", "Files that were cut off or lost events."),
                    ("samples_per_s", "double", "Samples a second, as the run wrote them down."),
                    ("used_gpus", "int32", "GPUs used, where the run wrote that down."),
                ),
            ),
            ComputedTable(
                "rollup_ranks",
                "one rank and device of a run, in short",
                columns(
                    ("rank", "int32", "Rank of the process."),
                    ("device", "int32", "Ordinal of the GPU; NULL without."),
                    ("host", "text", "Host name."),
                    ("uuid", "text", "UUID of the physical card."),
                    ("window_ns", "int64", "As in gpu_breakdown, as are the next four, which add up to it."),
                    ("compute_ns", "int64", "Time of compute."),
                    ("exposed_comm_ns", "int64", "Time of exposed communication."),
                    ("exposed_memory_ns", "int64", "Time of exposed copies."),
                    ("idle_ns", "int64", "Time in which nothing ran."),
                    ("kernel_sum_ns", "int64", "Durations of all kernels, added up."),
                    ("unclassified_ns", "int64", "Those of kernels that no rule matches."),
                    ("steps", "int64", "Steps of step_breakdown, else training steps that a run folder records."),
                    ("step_ns", "int64", "Median length of a step, rounded down."),
                    (
                        "step_compute_ns",
                        "int64",
                        "Median of compute_ns of a step, rounded down; NULL where no rows of steps are known.",
                    ),
                    (
                        "collectives",
                        "int64",
                        "As in stragglers, as are the next seven, of the rank: only in the row of its first device.",
                    ),
                    ("collective_ns", "int64", "Durations of these collectives."),
                    ("wait_ns", "int64", "Waiting for the last rank."),
                    ("exposed_wait_ns", "int64", "The part in which nothing computes."),
                    ("times_last", "int64", "Collectives that the rank started last."),
                    ("caused_wait_ns", "int64", "Waits of other ranks in these."),
                    ("removable_ns", "int64", "What those would be shorter by."),
                    ("lateness_ns", "int64", "Entries less the median entry of the other ranks, added up."),
                ),
            ),
            ComputedTable(
                "rollup_steps",
                "one step of a rank and device, in short",
                columns(
                    ("rank", "int32", "Rank of the process."),
                    ("device", "int32", "Ordinal of the GPU; NULL without."),
                    ("step", "int64", "Number of the step."),
                    ("step_ns", "int64", "As in step_breakdown, as are the others."),
                    ("compute_ns", "int64", "Time of compute."),
                    ("exposed_comm_ns", "int64", "Time of exposed communication."),
                    ("exposed_memory_ns", "int64", "Time of exposed copies."),
                    ("other_steps_ns", "int64", "Time of rows of other steps."),
                    ("idle_ns", "int64", "Time in which nothing ran."),
                    ("cpu_ns", "int64", "The step's range on the host."),
                    ("kernels", "int64", "Kernels of the step."),
                ),
            ),
        ),
        ("gpu_breakdown", "step_breakdown", "stragglers"),
        of_many=True,
        kept=True,
    ),
    Computation(
        "tracelab.change_points:compute_segments",
        {"points": "from run_points('rollup_runs', 'rollup_ranks', $metric, $series_name)"},
        {"metric": "step_ns", "series_name": None, "alpha": 0.01, "step_name": _STEP_NAME},
        400,
        (
            ComputedTable(
                "run_segments",
                "one run of a series with the stretch between two changes that it belongs to",
                columns(
                    ("place", "int64", "Place of the run in its series, from 1, in the order of time."),
                    ("segment", "int64", "Number of the stretch, from 1."),
                    ("chance", "double", "Of the first run of a stretch the chance of such a change; else NULL."),
                ),
            ),
        ),
        of_many=True,
    ),
)
"""Tables that Python computes; a session computes them once a text names one."""

REPLAYED_GAINS = Computation(
    "tracelab.paths.gains:compute_gains",
    _PATH_RELATIONS,
    {"changes": None, "step_name": _STEP_NAME},
    900,
    (),
    scope_relations=_PATH_SCOPE,
    condensed=_GRAPH,
    narrow=True,
    kept_by_params=True,
)
"""What a run gains by several changes of what_if; no text names it."""
