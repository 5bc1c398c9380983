"""Compute what a run would take if rows were shorter, waits fell away or the network were another one."""

import math
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from tracelab.allocator import return_freed_memory
from tracelab.errors import UsageError
from tracelab.paths.chosen_rows import Chosen, Params, choose_rows, is_called, refuse_change
from tracelab.paths.clocks import refuse_clocks
from tracelab.paths.columns import NONE, Array, nullable_column, text_column
from tracelab.paths.graph import Graph
from tracelab.paths.on_time import shorten_late_work
from tracelab.paths.packing import read_graph
from tracelab.paths.recording import Relations
from tracelab.paths.replay import Change, Replay, no_change
from tracelab.paths.scope import read_scope
from tracelab.paths.unexplained import (
    UnexplainedTime,
    UnreplacedTime,
    measure_unreplaced,
    measure_unreplayable,
    read_limit,
)
from tracelab.paths.walk import Path, class_names, classify, path_classes
from tracelab.paths.windows import find_windows, walk_windows, window_ns

LARGEST_ERROR_RATIO = 0.01
"""A replay without a change that misses the recorded window by more proves nothing."""


@dataclass(frozen=True)
class Answer:
    """What a change of a run gives: the run after it, or why that is not known.

    For `open_ns` of its window the run waits for what is not recorded, and may gain that, too.
    """

    changed_rows: int
    reason: str | None
    window_ns: int | None = None
    open_ns: int | None = None
    path: "PathTimes | None" = None


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
    def path(self) -> "PathTimes":
        """Return the times on the critical path of the recording."""
        return measure_path(self.graph, walk_windows(self.graph, self._recorded, self._check))

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
            or self._limit.refuse_recorded(self.path.unreplayable, self.window_ns)
        )

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
        path, moved_ns = measure_path(changed, walk_windows(changed, moved, self._check)), window_ns(moved)
        if reason := self._limit.refuse_changed(self.path.unreplaced, path.unreplaced, moved_ns):
            return Answer(chosen.count, reason)
        return Answer(chosen.count, None, moved_ns, path.unreplaced.open_ns(self.path.unreplaced), path)


def compute_what_if(relations: Relations, params: Params, check: Callable[[], None]) -> dict[str, pa.Table]:
    """Return the rows of `what_if_classes` and `what_if_runs`: times and paths before and after a change."""
    _check_params(params)
    replays = Replays(relations, None if params["step"] is None else int(params["step"]), check)
    if not replays.window_ns:
        return {}
    answer = replays.answer(params)
    before = replays.path.of_classes
    after = answer.path.of_classes if answer.path else Counter[str]()
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


@dataclass(frozen=True)
class PathTimes:
    """The time on a path: by class, and that which a replay cannot change, in a recording or behind a change."""

    of_classes: Counter[str]
    unreplayable: UnexplainedTime
    unreplaced: UnreplacedTime


def measure_path(graph: Graph, path: Iterable[Path]) -> PathTimes:
    """Return the time on a path, given in blocks."""
    names = path_classes(graph)
    spent, is_there = np.zeros(len(names), dtype=np.int64), np.zeros(len(names), dtype=bool)
    unreplayable, unreplaced = UnexplainedTime(0, 0), UnreplacedTime(0, 0)
    for block in path:
        classes = classify(graph, block)
        np.add.at(spent, classes, block.end - block.start)
        is_there[classes] = True
        unreplayable += measure_unreplayable(graph, block, classes)
        unreplaced += measure_unreplaced(graph, block, classes)
    of_classes: Counter[str] = Counter()
    for number in np.flatnonzero(is_there).tolist():
        of_classes[names[number]] += int(spent[number])
    return PathTimes(of_classes, unreplayable, unreplaced)


def refuse_replay(window_ns: int, replayed_ns: int) -> str | None:
    """Return why no replay has an answer, if so."""
    error = abs(replayed_ns - window_ns) / window_ns
    if error <= LARGEST_ERROR_RATIO:
        return None
    return f"a replay without a change misses the recorded window by {100 * error:.1f} %, over 1 %"


def refuse_uncalled(graph: Graph, params: Params, chosen: Chosen, window_ns: int) -> str | None:
    """Return why copies cannot fall away, if so: it is not known which calls last as long."""
    if params["change"] != "no_copies":
        return None
    rows = np.flatnonzero(chosen.rows & ~is_called(graph)) + graph.gpu_from
    uncalled_ns = int((graph.end - graph.start)[rows].sum())
    if uncalled_ns <= LARGEST_ERROR_RATIO * window_ns:
        return None
    return (
        f"the calls that launch {len(rows):,} of the copies, {100 * uncalled_ns / window_ns:.1f} % of the window, are "
        "not recorded, and may last as long: record calls of the CUDA runtime and driver"
    )


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
