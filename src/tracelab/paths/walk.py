"""Walk back from the end of a window to what bound each row: the critical path, each nanosecond charged once."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tracelab.paths.columns import NONE, Array, cells
from tracelab.paths.graph import GAP, GAP_CLASSES, Graph

_CHECK_EVERY = 65_536


@dataclass(frozen=True)
class Window:
    """The time to walk through, and the node that ends it."""

    start: int
    end: int
    node: int


@dataclass(frozen=True)
class Path:
    """The stretches of a path in order, which fill its window; `gap` is 0 for time of the node itself."""

    node: Array
    start: Array
    end: Array
    gap: Array
    cause: Array


def whole_window(graph: Graph) -> Window:
    """Return the window from the first start to the last end of all rows; of rows that end then a GPU's is taken."""
    if not len(graph.end):
        return Window(0, 0, -1)
    end = int(graph.end.max())
    return Window(0, end, int(np.flatnonzero(graph.end == end)[-1]))


def walk_back(graph: Graph, window: Window, check: Callable[[], None]) -> Path:
    """Walk from the window's last node back to its start.

    At a node the path goes on with what that waited for, and if the node was reached before that wait had ended, with
    what it followed at its start. A stretch without such a node is unknown.
    """
    since, before, bound = cells(graph.since), cells(graph.before), cells(graph.bound)
    gap, cause = cells(graph.gap), cells(graph.cause)
    starts, plain_before, plain_bound = cells(graph.start), cells(graph.plain_before), cells(graph.plain_bound)
    plain_gap, plain_cause = cells(graph.plain_gap), cells(graph.plain_cause)
    unknown = GAP["unknown"]
    stretches: list[tuple[int, int, int, int, int]] = []
    put = stretches.append
    node, now, begin = window.node, window.end, window.start
    reached = cells(np.zeros(len(graph.start), dtype=np.int64))  # when each node was reached last; time never stays 0
    while now > begin:
        start = since[node] if node >= 0 else now
        if node < 0:
            put((window.node if not stretches else stretches[-1][0], begin, now, unknown, 0))
            break
        if now >= start and reached[node] != now:
            following, moment, kind, why = before[node], bound[node], gap[node], cause[node]
        else:
            start, following, moment = starts[node], plain_before[node], plain_bound[node]
            kind, why = plain_gap[node], plain_cause[node]
            if reached[node] == now and (now <= start or (following >= 0 and reached[following] == now)):
                following, moment = -1, NONE
        if start < now:
            put((node, max(start, begin), now, 0, why))
            now = start
        if NONE < moment < now and now > begin:
            put((node, max(moment, begin), now, kind or unknown, why))
            now = moment
        reached[node] = now
        if not len(stretches) % _CHECK_EVERY:
            check()
        if following < 0 and now > begin:
            put((node, begin, now, unknown, 0))
            break
        node = following
    columns = np.array(stretches[::-1], dtype=np.int64).reshape(-1, 5).T
    return Path(*columns)


CPU_CLASSES = ("cpu", "cpu_unrecorded", "data_loader", "synchronization", "unknown")


def class_names(graph: Graph) -> list[str]:
    """Return the class of each number of `node_classes`."""
    return [*CPU_CLASSES, *(name or "unclassified" for name in graph.recording.gpu.classes)]


def node_classes(graph: Graph, nodes: Array) -> Array:
    """Return a number for the class of the own time of some nodes."""
    gpu, first = graph.recording.gpu, graph.gpu_from
    is_gpu = nodes >= first
    segment, row = nodes[~is_gpu], graph.row[nodes[is_gpu]]
    classes = np.empty(len(nodes), dtype=np.int64)
    unstarted = (graph.row[segment] < 0) & (graph.before[segment] < 0)
    silent = graph.is_silent[segment]
    classes[~is_gpu] = np.select(
        [graph.is_sync[segment], graph.is_loader[segment], silent & unstarted, silent], [3, 2, 4, 1], 0
    )
    own = gpu.row_class[row]
    classes[is_gpu] = np.where(own < 0, len(gpu.classes) - 1, own) + len(CPU_CLASSES)
    return classes


def classify(graph: Graph, path: Path) -> tuple[Array, list[str]]:
    """Return a number for the class of each stretch of a path, and the class of each number."""
    numbers = node_classes(graph, path.node) + len(GAP_CLASSES)
    return np.where(path.gap > 0, path.gap, numbers), [*GAP_CLASSES, *class_names(graph)]
