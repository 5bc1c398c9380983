"""Compute what a run would take if rows were shorter, waits fell away or the network were another one."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracelab.errors import UsageError
from tracelab.paths.clocks import refuse_clocks
from tracelab.paths.columns import NONE, Array, nullable_column, return_freed_memory, text_column
from tracelab.paths.graph import Graph
from tracelab.paths.modules import mark_modules, name_modules
from tracelab.paths.on_time import shorten_late_work
from tracelab.paths.packing import read_graph
from tracelab.paths.recording import Relations
from tracelab.paths.replay import Change, Replay, no_change
from tracelab.paths.scope import PathScope, find_scope_rows, read_scope
from tracelab.paths.unexplained import UnreplacedTime, measure_unreplaced, measure_unreplayable, read_limit
from tracelab.paths.walk import Path, Window, class_names, classify, row_classes, segment_classes
from tracelab.paths.windows import find_windows, start_within, walk_windows, window_ns

Params = Mapping[str, str | int | float | bool | None]
_FILTERS = ("class", "op", "kernel", "layer", "module", "of_rank", "collective")
NO_FILTERS: Params = dict.fromkeys(("change", "factor", *_FILTERS, "step"))

LARGEST_ERROR_RATIO = 0.01
"""A replay without a change that misses the recorded window by more proves nothing."""
CLASSES_OF_CHANGES = {
    "ideal_network": "communication",
    "bandwidth": "communication",
    "no_copies": "memcpy",
    "no_data_waits": "data_loader",
}
"""The rows that a change is about, where no class is chosen."""
OF_ONE_RANK = {
    "no_waits": "the rank that the others do not wait for",
    "on_time": "the rank that comes no later than the last but one",
}
"""Changes that need a rank, and which."""
NOT_COMPUTE = ("communication", "memcpy", "memset")
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


@dataclass(frozen=True)
class Answer:
    """What a change of a run gives: the run after it, or why that is not known.

    For `open_ns` of its window the run waits for what is not recorded, and may gain that, too.
    """

    changed_rows: int
    reason: str | None
    window_ns: int | None = None
    open_ns: int | None = None
    graph: Graph | None = None
    path: Path | None = None


class Replays:
    """The replays of a run, or of a step or scope of it, without and with changes.

    The windows have no length where nothing is known.
    """

    def __init__(self, relations: Relations, step: int | None, check: Callable[[], None]) -> None:
        """Read the graph, and find its windows."""
        self._relations, self._check, self._scope = relations, check, read_scope(relations)
        self._limit = read_limit(relations)
        self.graph = graph = read_graph(relations, check)
        return_freed_memory()
        self._windows = find_windows(graph, relations, step, self._scope, check)
        self._recorded = self._windows.of(graph)
        self.window_ns = window_ns(self._recorded)

    @cached_property
    def path(self) -> Path:
        """Return the critical path of the recording."""
        return walk_windows(self.graph, self._recorded, self._check)

    @cached_property
    def replayed_ns(self) -> int:
        """Return the length of the windows in a replay without a change."""
        if self._unchanged.is_exact():
            return self.window_ns
        return window_ns(self._windows.of(self._unchanged.run(self._check)))

    @cached_property
    def _unchanged(self) -> Replay:
        return Replay(self.graph)

    @cached_property
    def _refusal(self) -> str | None:
        """Return why no change has an answer, if so."""
        return (
            refuse_clocks(self.graph, self._relations)
            or refuse_replay(self.window_ns, self.replayed_ns)
            or self._limit.refuse_recorded(measure_unreplayable(self.graph, self.path), self.window_ns)
        )

    @cached_property
    def _kept(self) -> UnreplacedTime:
        return measure_unreplaced(self.graph, self.path)

    def answer(self, params: Params) -> Answer:
        """Replay a change: rows that parameters choose, in the windows and the scope."""
        with ThreadPoolExecutor(1) as other_core:
            choosing = other_core.submit(choose_rows, self.graph, self._relations, params, self._scope)
            _ = self._unchanged
            chosen = choosing.result()
        if not self._windows.are_whole:
            chosen.keep_started(self.graph, self._recorded)
        if reason := (
            self._refusal
            or refuse_change(params, self._relations, chosen, class_names(self.graph))
            or refuse_uncalled(self.graph, params, chosen, self.window_ns)
        ):
            return Answer(chosen.count, reason)
        changed = self._unchanged.with_change(plan_change(self.graph, params, chosen)).run(self._check)
        moved = self._windows.of(changed)
        path, moved_ns = walk_windows(changed, moved, self._check), window_ns(moved)
        kept = measure_unreplaced(changed, path)
        if reason := self._limit.refuse_changed(self._kept, kept, moved_ns):
            return Answer(chosen.count, reason)
        return Answer(chosen.count, None, moved_ns, kept.open_ns(self._kept), changed, path)


def compute_what_if(relations: Relations, params: Params, check: Callable[[], None]) -> dict[str, pa.Table]:
    """Return the rows of `what_if_classes` and `what_if_runs`: times and paths before and after a change."""
    _check_params(params)
    replays = Replays(relations, None if params["step"] is None else int(params["step"]), check)
    if not replays.window_ns:
        return {}
    answer = replays.answer(params)
    before = path_totals(replays.graph, replays.path)
    after = path_totals(answer.graph, answer.path) if answer.graph and answer.path else Counter[str]()
    classes = sorted(before.keys() | after.keys())
    return {
        "what_if_classes": pa.table(
            {
                "class": text_column(classes),
                "before_ns": nullable_column([before[name] for name in classes]),
                "after_ns": nullable_column([after[name] if answer.reason is None else None for name in classes]),
            }
        ),
        "what_if_runs": pa.table(
            {
                "window_ns": nullable_column([replays.window_ns]),
                "replayed_ns": nullable_column([replays.replayed_ns]),
                "after_ns": nullable_column([answer.window_ns]),
                "changed_rows": nullable_column([answer.changed_rows]),
                "reason": text_column([answer.reason]),
                "ranks_left_out": nullable_column([replays.graph.recording.ranks_left_out]),
            }
        ),
    }


def _check_params(params: Params) -> None:
    """Raise UsageError for a factor that no time can be scaled by, and for time that none scales."""
    if params["class"] == "unknown":
        raise UsageError(
            "--class unknown: no replay scales this time, for what it is spent on is not known; choose another class"
        )
    factor = params["factor"]
    least = math.ulp(0) if params["change"] == "bandwidth" else 0
    if factor is not None and not least <= float(factor) < math.inf:
        allowed = "above 0" if least else "of 0 or more"
        raise UsageError(f"--factor {factor}: --change {params['change']} takes a finite number {allowed}")


def path_totals(graph: Graph, path: Path) -> Counter[str]:
    """Return the time on a path by class."""
    numbers, names = classify(graph, path)
    spent = np.zeros(len(names), dtype=np.int64)
    np.add.at(spent, numbers, path.end - path.start)
    totals: Counter[str] = Counter()
    for number in np.unique(numbers).tolist():
        totals[names[number]] += int(spent[number])
    return totals


def refuse_replay(window_ns: int, replayed_ns: int) -> str | None:
    """Return why no replay has an answer, if so."""
    error = abs(replayed_ns - window_ns) / window_ns
    if error <= LARGEST_ERROR_RATIO:
        return None
    return f"a replay without a change misses the recorded window by {100 * error:.1f} %, over 1 %"


def refuse_change(params: Params, relations: Relations, chosen: Chosen, classes: list[str]) -> str | None:
    """Return why a change has no answer, if so; `classes` are those of the graph."""
    change, rank = params["change"], params["of_rank"]
    if change in OF_ONE_RANK and rank is None:
        return f"{change} needs --of-rank: {OF_ONE_RANK[str(change)]}"
    if params["module"] is not None and not relations["modules"].num_rows:
        return "no frames of modules are recorded: profile with with_stack=True, or choose ranges with --layer"
    if change == "on_time" and not chosen.count:
        return f"rank {rank} enters no collective behind all others after recorded work that the filters choose"
    if params["class"] is not None and not _wanted_classes(classes, params).any():
        others = ", ".join(sorted({*classes, *_GROUPS} - {"unknown"}))
        return f"no row is of class {params['class']}; choose one of {others}"
    if not chosen.count and change in CLASSES_OF_CHANGES and not any(params[name] is not None for name in _FILTERS):
        return f"{change} is about rows of class {CLASSES_OF_CHANGES[str(change)]}, and the run, step or scope has none"
    if change is not None and not chosen.count:
        return "no row is of this class, name, op, layer, module, rank, collective, step and scope"
    return None


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
    launching[graph.launch_row[chosen.rows & _is_called(graph)]] = True
    np.logical_or(chosen.segments, launching[graph.segments.row], out=chosen.segments)


def _is_called(graph: Graph) -> Array:
    """Return for each row of a GPU whether the call that launched it is recorded."""
    is_call = np.append(graph.recording.cpu.of_kind("call"), False)  # of -1, no row
    return np.asarray(is_call[graph.launch_row])


def refuse_uncalled(graph: Graph, params: Params, chosen: Chosen, window_ns: int) -> str | None:
    """Return why copies cannot fall away, if so: it is not known which calls last as long."""
    if params["change"] != "no_copies":
        return None
    rows = np.flatnonzero(chosen.rows & ~_is_called(graph)) + graph.gpu_from
    uncalled_ns = int((graph.end - graph.start)[rows].sum())
    if uncalled_ns <= LARGEST_ERROR_RATIO * window_ns:
        return None
    return (
        f"the calls that launch {len(rows):,} of the copies, {100 * uncalled_ns / window_ns:.1f} % of the window, are "
        "not recorded, and may last as long: record calls of the CUDA runtime and driver"
    )


def _keep_changed(graph: Graph, params: Params, chosen: Chosen) -> None:
    """Keep the rows that a change of waits or launches is about."""
    if params["change"] == "no_launch_gaps":
        chosen.keep_rows(graph.launch_thread >= 0)
    if params["change"] == "no_short_gaps":
        bound = graph.plain.bound
        chosen.keep_rows((bound != NONE) & (graph.start[graph.gpu_from :] - bound <= SHORT_GAP_NS))
    if params["change"] == "no_waits":
        chosen.keep_rows(graph.meeting >= 0)


def _keep_rank(graph: Graph, params: Params, chosen: Chosen) -> None:
    """Keep the rows of a rank, and of these what a change shortens."""
    if params["of_rank"] is None:
        return
    rank = int(params["of_rank"])
    is_own = graph.recording.cpu.rank_of_lane == rank
    chosen.keep(is_own[graph.segments.thread], graph.rank[graph.gpu_from :] == rank)
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
    wanted = params["class"] or CLASSES_OF_CHANGES.get(str(params["change"]))
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
        or (wanted == "compute" and on_gpu and name not in NOT_COMPUTE)
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


def plan_change(graph: Graph, params: Params, chosen: Chosen) -> Change:
    """Return the change that the parameters describe."""
    change = no_change(graph)
    factor = float(params["factor"]) if params["factor"] is not None else 1.0
    match params["change"]:
        case "scale" | "bandwidth":
            return _scale(change, chosen, factor if params["change"] == "scale" else 1 / factor)
        case "ideal_network" | "no_data_waits" | "no_copies":
            return _scale(change, chosen, 0.0)
        case "on_time":
            of_segments, of_rows = shorten_late_work(graph, int(params["of_rank"] or 0))
            segment_factor = np.where(chosen.segments, of_segments, 1.0)
            return replace(change, segment_factor=segment_factor, factor=np.where(chosen.rows, of_rows, 1.0))
        case "median":
            return replace(change, duration=_medians(graph, chosen.rows))
        case "no_waits":
            return replace(change, unawaited=chosen.rows)
        case "no_launch_gaps":
            return replace(change, unlagged=chosen.rows)
        case "no_short_gaps":
            return replace(change, ungapped=chosen.rows)
        case _:
            return change


def _scale(change: Change, chosen: Chosen, factor: float) -> Change:
    """Return a change that scales what is chosen."""
    return replace(change, segment_factor=_factors(chosen.segments, factor), factor=_factors(chosen.rows, factor))


def _factors(chosen: Array, factor: float) -> Array:
    """Return a factor where chosen, else 1; a view of one item where all are alike."""
    if chosen.all():
        return np.broadcast_to(np.array(factor), len(chosen))
    return np.where(chosen, factor, 1.0) if chosen.any() else np.broadcast_to(np.array(1.0), len(chosen))


def _medians(graph: Graph, mine: Array) -> Array:
    """Return the median duration of the peers of the chosen rows of GPUs: rows of the same name that are not chosen.

    Where all rows of a name are chosen, they are each other's peers. Of a collective it is the transfer that counts.
    """
    gpu, first = graph.recording.gpu, graph.gpu_from
    own = np.where(graph.meeting >= 0, graph.end[first:] - graph.entered, graph.end[first:] - graph.start[first:])
    own = np.maximum(own, 0)
    durations = np.full(gpu.count, NONE)
    order = np.lexsort((own, gpu.name))
    bounds = np.searchsorted(gpu.name[order], np.arange(-1, len(gpu.names) + 1))
    for place in np.unique(gpu.name[mine]).tolist():
        rows = order[bounds[place + 1] : bounds[place + 2]]
        peers = rows[~mine[rows]]
        median = int(np.median(own[peers if len(peers) else rows]))
        durations[rows[mine[rows]]] = median
    return durations
