"""Choose the rows that a change of a run is about, by the filters of a query what_if."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracelab.errors import UsageError
from tracelab.paths.columns import NONE, Array, text_column
from tracelab.paths.graph import Graph
from tracelab.paths.modules import mark_modules, name_modules
from tracelab.paths.on_time import shorten_late_work
from tracelab.paths.recording import Relations
from tracelab.paths.scope import PathScope, find_scope_rows
from tracelab.paths.walk import Window, class_names, row_classes, segment_classes
from tracelab.paths.windows import start_within

Params = Mapping[str, str | int | float | bool | None]
_FILTERS = ("class", "op", "kernel", "layer", "module", "of_rank", "collective")
NO_FILTERS: Params = dict.fromkeys(("change", "factor", *_FILTERS, "step"))

_CLASSES_OF_CHANGES = {
    "ideal_network": "communication",
    "bandwidth": "communication",
    "no_copies": "memcpy",
    "no_data_waits": "data_loader",
}
"""The rows that a change is about, where no class is chosen."""
_OF_ONE_RANK = {
    "no_waits": "the rank that the others do not wait for",
    "on_time": "the rank that comes no later than the last but one",
}
"""Changes that need a rank, and which."""
_NOT_COMPUTE = ("communication", "memcpy", "memset")
_GROUPS = ("compute", "cpu_side", "gpu", "memory")
_CLASSES_OF_GROUPS = {"cpu_side": ("cpu", "cpu_unrecorded"), "memory": ("memcpy", "memset")}
"""Classes that go by one name; what a thread waits for is not in `cpu_side`, nor is its data loader."""
SHORT_GAP_NS = 30_000
"""The longest gap that is overhead between rows of GPUs and waits for nothing, as min_gap_ns of idle_causes."""


@dataclass(frozen=True)
class Chosen:
    """Whether each segment of a thread, and each row of a GPU, is chosen."""

    segments: Array
    rows: Array

    @property
    def count(self) -> int:
        """Return how many are."""
        return int(self.segments.sum()) + int(self.rows.sum())

    def keep(self, segments: Array, rows: Array) -> None:
        """Choose no others than these."""
        np.logical_and(self.segments, segments, out=self.segments)
        np.logical_and(self.rows, rows, out=self.rows)

    def keep_rows(self, rows: Array) -> None:
        """Choose no segments, and no others than these rows."""
        self.segments[:] = False
        np.logical_and(self.rows, rows, out=self.rows)

    def keep_started(self, graph: Graph, windows: list[Window]) -> None:
        """Choose none that start outside of all windows."""
        self.keep(*(start_within(windows, start) for start in (graph.segments.start, graph.start[graph.gpu_from :])))


def choose_rows(graph: Graph, relations: Relations, params: Params, scope: PathScope) -> Chosen:
    """Return for each segment of a thread and each row of a GPU whether all filters and the scope choose it."""
    segments, rows = graph.segments, graph.recording.gpu
    chosen = Chosen(np.ones(len(segments.start), dtype=bool), np.ones(rows.count, dtype=bool))
    chosen.segments[graph.unstarted] = False  # threads begin when they began: what was before is not known
    for keep in (_keep_changed, _keep_rank, _keep_named, _keep_class):
        keep(graph, params, chosen)
    for marked in _mark_rows(graph, relations, params):
        inside = np.append(graph.nesting.lies_in(np.arange(len(marked)), marked), False)  # of -1, no row
        chosen.keep(inside[segments.row], inside[graph.launch_row])
    if (in_scope := find_scope_rows(graph, relations, scope)) is not None:
        chosen.keep(in_scope.segments, in_scope.rows)
    if params["change"] == "no_copies":
        _add_launching_calls(graph, chosen)
    return chosen


def _add_launching_calls(graph: Graph, chosen: Chosen) -> None:
    """Choose the calls that launch the chosen rows, too: one that copies may last as long."""
    launching = np.zeros(graph.recording.cpu.count + 1, dtype=bool)  # the last one of -1, no row
    launching[graph.launch_row[chosen.rows & is_called(graph)]] = True
    np.logical_or(chosen.segments, launching[graph.segments.row], out=chosen.segments)


def is_called(graph: Graph) -> Array:
    """Return for each row of a GPU whether the call that launched it is recorded."""
    is_call = np.append(graph.recording.cpu.of_kind("call"), False)  # of -1, no row
    return np.asarray(is_call[graph.launch_row])


def _keep_changed(graph: Graph, params: Params, chosen: Chosen) -> None:
    """Keep the rows that a change of waits or launches is about."""
    if params["change"] == "no_launch_gaps":
        chosen.keep_rows(graph.launch_thread >= 0)
    if params["change"] == "no_short_gaps":
        bound = graph.at_start("bound")
        chosen.keep_rows((bound != NONE) & (graph.start[graph.gpu_from :] - bound <= SHORT_GAP_NS))
    if params["change"] == "no_waits":
        chosen.keep_rows(graph.meeting >= 0)


def _keep_rank(graph: Graph, params: Params, chosen: Chosen) -> None:
    """Keep the rows of a rank, and of these what a change shortens."""
    if params["of_rank"] is None:
        return
    rank = int(params["of_rank"])
    is_own = graph.recording.cpu.rank_of_lane == rank
    chosen.keep(is_own[graph.segments.thread], graph.recording.gpu.ranks() == rank)
    if params["change"] == "on_time":
        of_segments, of_rows = shorten_late_work(graph, rank)
        chosen.keep(of_segments != 1, of_rows != 1)


def _keep_named(graph: Graph, params: Params, chosen: Chosen) -> None:
    """Keep the kernels and collectives of a name."""
    gpu = graph.recording.gpu
    for name, texts, column in (("kernel", gpu.names, gpu.name), ("collective", gpu.collectives, gpu.collective)):
        if params[name] is not None:
            chosen.keep_rows(_find(name, str(params[name]), texts)[column])


def _keep_class(graph: Graph, params: Params, chosen: Chosen) -> None:
    """Keep the rows of a class."""
    wanted = _wanted_classes(class_names(graph), params)
    if wanted.all():
        return
    some = np.flatnonzero(chosen.segments) if wanted[:_FIRST_GPU_CLASS].any() else np.zeros(0, dtype=np.int64)
    of_segments = np.zeros(len(chosen.segments), dtype=bool)
    of_segments[some] = wanted[segment_classes(graph, some)]
    chosen.keep(of_segments, wanted[row_classes(graph)])


def _wanted_classes(names: list[str], params: Params) -> Array:
    """Return for each class whether its nodes may be chosen: by the parameter, else of changed networks transfers."""
    wanted = params["class"] or _CLASSES_OF_CHANGES.get(str(params["change"]))
    if wanted is None:
        return np.ones(len(names), dtype=bool)
    return np.array([_is_class(name, place, str(wanted)) for place, name in enumerate(names)], dtype=bool)


def _mark_rows(graph: Graph, relations: Relations, params: Params) -> Iterator[Array]:
    """Yield for each filter by op, range or module which CPU rows it finds: these, and what they hold, are chosen."""
    cpu = graph.recording.cpu
    for name, kind in (("op", "op"), ("layer", "range")):
        if params[name] is not None:
            yield cpu.of_kind(kind) & _find(name, str(params[name]), cpu.names)[cpu.name]
    if params["module"] is not None:
        wanted = _find("module", str(params["module"]), name_modules(relations))
        yield mark_modules(graph.recording, relations, wanted)


def _is_class(name: str, place: int, wanted: str) -> bool:
    """Return whether a class is the wanted one; compute are those of kernels that do not communicate, `copy` too."""
    on_gpu = place >= _FIRST_GPU_CLASS
    return (
        name in _CLASSES_OF_GROUPS.get(wanted, (wanted,))
        or (wanted == "compute" and on_gpu and name not in _NOT_COMPUTE)
        or (wanted == "gpu" and on_gpu)
    )


_FIRST_GPU_CLASS = 5


def _find(param: str, pattern: str, texts: list[str | None]) -> Array:
    """Return in which texts an expression is found. RE2 takes the same ones as SQL, in linear time."""
    try:
        found = pc.match_substring_regex(text_column(texts), pattern)
    except pa.ArrowInvalid as error:
        reason = str(error).removeprefix("Invalid regular expression: ")
        raise UsageError(f"--{param} {pattern!r} is no regular expression: {reason}") from error
    return np.array(found.to_pylist(), dtype=bool)  # None is false


def refuse_change(params: Params, relations: Relations, chosen: Chosen, classes: list[str]) -> str | None:
    """Return why a change has no answer, if so; `classes` are those of the graph."""
    change, rank = params["change"], params["of_rank"]
    if change in _OF_ONE_RANK and rank is None:
        return f"{change} needs --of-rank: {_OF_ONE_RANK[str(change)]}"
    if params["module"] is not None and not relations["modules"].num_rows:
        return "no frames of modules are recorded: profile with with_stack=True, or choose ranges with --layer"
    if change == "on_time" and not chosen.count:
        return f"rank {rank} enters no collective behind all others after recorded work that the filters choose"
    if params["class"] is not None and not _wanted_classes(classes, params).any():
        others = ", ".join(sorted({*classes, *_GROUPS} - {"unknown"}))
        return f"no row is of class {params['class']}; choose one of {others}"
    if not chosen.count and change in _CLASSES_OF_CHANGES and not any(params[name] is not None for name in _FILTERS):
        return (
            f"{change} is about rows of class {_CLASSES_OF_CHANGES[str(change)]}, and the run, step or scope has none"
        )
    if change is not None and not chosen.count:
        return "no row is of this class, name, op, layer, module, rank, collective, step and scope"
    return None
