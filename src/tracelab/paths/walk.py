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
    node, now, visited = window.node, window.end, set[int]()
    begin = window.start
    while now > begin:
        start = since[node] if node >= 0 else now
        if node < 0:
            put((window.node if not stretches else stretches[-1][0], begin, now, unknown, 0))
            break
        if now >= start and node not in visited:
            following, moment, kind, why = before[node], bound[node], gap[node], cause[node]
        else:
            start, following, moment = starts[node], plain_before[node], plain_bound[node]
            kind, why = plain_gap[node], plain_cause[node]
            if node in visited and (following in visited or now <= start):
                following, moment = -1, NONE
        if start < now:
            put((node, max(start, begin), now, 0, why))
            now = start
            visited.clear()
        if NONE < moment < now and now > begin:
            put((node, max(moment, begin), now, kind or unknown, why))
            now = moment
            visited.clear()
        visited.add(node)
        if not len(stretches) % _CHECK_EVERY:
            check()
        if following < 0 and now > begin:
            put((node, begin, now, unknown, 0))
            break
        node = following
    columns = np.array(stretches[::-1], dtype=np.int64).reshape(-1, 5).T
    return Path(*columns)


CPU_CLASSES = ("cpu", "cpu_unrecorded", "data_loader", "synchronization", "unknown")


def node_classes(graph: Graph) -> tuple[Array, list[str]]:
    """Return a number for the class of each node's own time, and the class of each number."""
    gpu, first = graph.recording.gpu, graph.gpu_from
    names = [*CPU_CLASSES, *(name or "unclassified" for name in gpu.classes)]
    unstarted = (graph.row[:first] < 0) & (graph.before[:first] < 0)
    segments = np.select(
        [graph.is_sync, graph.is_loader, graph.is_silent & unstarted, graph.is_silent], [3, 2, 4, 1], 0
    )
    rows = np.where(gpu.row_class < 0, len(gpu.classes) - 1, gpu.row_class) + len(CPU_CLASSES)
    return np.concatenate([segments, rows]), names


def classify(graph: Graph, path: Path) -> list[str]:
    """Return the class of each stretch of a path."""
    numbers, names = node_classes(graph)
    nodes = numbers[path.node]
    return [
        GAP_CLASSES[gap] if gap else names[number]
        for number, gap in zip(nodes.tolist(), path.gap.tolist(), strict=True)
    ]
