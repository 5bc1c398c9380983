"""Walk back from the end of a window to what bound each row: the critical path, each nanosecond charged once."""

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from tracelab.paths.columns import NONE, Array, cells, repeat_number
from tracelab.paths.graph import Graph
from tracelab.paths.nodes import CAUSE, GAP, GAP_CLASSES

_CHECK_EVERY = 65_536
_BLOCK_NODES = 1 << 17
_LEAST_AT_ONCE = 16
"""Nodes that are passed at once: fewer are passed faster one by one."""


@dataclass(frozen=True)
class Window:
    """The time to walk through, and the node that ends it."""

    start: int
    end: int
    node: int


@dataclass(frozen=True)
class NodePath:
    """The stretches of a path in order, which fill its window; `gap` is 0 for time of the node itself."""

    node: Array
    start: Array
    end: Array
    gap: Array
    cause: Array


@dataclass(frozen=True)
class Path(NodePath):
    """A path with a stretch for each segment that it leads through."""

    segment: Array
    """The segment of a stretch on a thread, -1 of one of a row of a GPU."""


def whole_window(graph: Graph) -> Window:
    """Return the window from the first start to the last end of all rows; of rows that end then a GPU's is taken."""
    if not len(graph.end):
        return Window(0, 0, -1)
    end = int(graph.end.max())
    return Window(0, end, int(np.flatnonzero(graph.end == end)[-1]))


def find_path(graph: Graph, window: Window, check: Callable[[], None]) -> Iterator[Path]:
    """Yield the critical path through a window, in blocks: all of its stretches take as much memory as a graph."""
    for block in walk_back(graph, window, check).blocks():
        path = divide_path(graph, block)
        if len(path.node):
            yield path


def join_paths(paths: Iterable[Path]) -> Path:
    """Return the stretches of several paths or blocks as one."""
    some = list(paths)
    none = np.zeros(0, dtype=np.int64)
    return Path(*(np.concatenate([none, *(getattr(path, each.name) for path in some)]) for each in fields(Path)))


def divide_path(graph: Graph, path: NodePath) -> Path:
    """Divide the stretches on threads at the segments of their bursts; a gap lies before the first one."""
    own = np.flatnonzero(path.node < graph.gpu_from)
    if not len(own):
        return Path(path.node, path.start, path.end, path.gap, path.cause, repeat_number(-1, len(path.node)))
    burst, start, end = path.node[own], path.start[own], path.end[own]
    since = graph.since[burst]
    first = graph.head[burst]
    goes_on = (path.gap[own] == 0) & (end > since)  # else it lies in the wait that the burst begins with
    last = first.copy()
    last[goes_on] = _last_begun(graph, burst[goes_on], (end - since)[goes_on])
    cut = np.flatnonzero(goes_on & (start > since))  # at the start of the window
    first[cut] = _last_begun(graph, burst[cut], (start - since)[cut] + 1)
    own_count = last - first + 1
    count = np.ones(len(path.node), dtype=np.int64)
    count[own] = own_count
    columns = {each.name: np.repeat(getattr(path, each.name), count) for each in fields(NodePath)}
    divided = Path(**columns, segment=np.full(count.sum(), -1, dtype=np.int32))
    inner = np.arange(own_count.sum()) - np.repeat(np.cumsum(own_count) - own_count, own_count)  # place in its stretch
    place = np.repeat((np.cumsum(count) - count)[own], own_count) + inner
    segment, head = np.repeat(first, own_count) + inner, np.repeat(graph.head[burst], own_count)
    divided.segment[place] = segment
    later = np.flatnonzero(inner > 0)
    bursts = divided.node[place[later]]
    divided.start[place[later]] = graph.since[bursts] + graph.work.before(segment[later], bursts)
    divided.end[place[later] - 1] = divided.start[place[later]]
    within = (divided.gap[place] == 0) & (segment != head)
    divided.cause[place[within]] = CAUSE["thread"]
    some = divided.end > divided.start
    return divided if some.all() else Path(*(getattr(divided, each.name)[some] for each in fields(Path)))


def _last_begun(graph: Graph, bursts: Array, work_ns: Array) -> Array:
    """Return the last segment of each burst that begins before it has done so much work."""
    low, high = graph.head[bursts], np.full(len(bursts), len(graph.segments.start))
    followed = bursts + 1 < len(graph.head)
    high[followed] = graph.head[bursts[followed] + 1]
    high -= 1
    while (low < high).any():
        middle = (low + high + 1) // 2
        begun = graph.work.before(middle, bursts) < work_ns
        low, high = np.where(begun, middle, low), np.where(begun, high, middle - 1)
    return low


def walk_back(graph: Graph, window: Window, check: Callable[[], None]) -> "Walk":
    """Walk from the window's last node back to its start.

    At a node the path goes on with what that waited for, and if the node was reached before that wait had ended, with
    what it followed at its start. A stretch without such a node is unknown.
    """
    since, before, bound = cells(graph.since), cells(graph.before), cells(graph.bound)
    begin, unknown = window.start, GAP["unknown"]
    walk = Walk(graph, begin)
    put, passed = walk.put, walk.passed
    left: dict[int, int] = {}  # when nodes were left last, of those that the path can reach again at that time
    node, now = _leave_gap(graph, window, put)
    while now > begin:
        check()
        first = len(passed)
        node, now = walk.pass_nodes(node, now)
        if len(passed) > first:
            left[passed[-1]] = now
            continue
        following, start, moment = before[node], since[node], bound[node]
        if now >= start and left.get(node) != now:
            kind, why = int(graph.gap[node]), int(graph.cause[node])
        else:
            start, (following, moment, kind, why) = int(graph.start[node]), graph.followed_at_start(node)
            if left.get(node) == now and (now <= start or (following >= 0 and left.get(following) == now)):
                following, moment = -1, NONE
        if start < now:
            put(node, max(start, begin), now, 0, why)
            now = start
        if NONE < moment < now and now > begin:
            put(node, max(moment, begin), now, kind or unknown, why)
            now = moment
        left[node] = now
        if following < 0 and now > begin:
            put(node, begin, now, unknown, 0)
            break
        node = following
    return walk


def _leave_gap(graph: Graph, window: Window, put: Callable[[int, int, int, int, int], None]) -> tuple[int, int]:
    """Put the stretch of a window that ends in the gap before its node; return where the path goes on, and when."""
    node, now = window.node, window.end
    bound, before = int(graph.bound[node]), int(graph.before[node])
    if not (NONE < bound < now < graph.since[node] and window.start < now):
        return node, now
    put(node, max(bound, window.start), now, int(graph.gap[node]) or GAP["unknown"], int(graph.cause[node]))
    if before < 0 and bound > window.start:
        put(node, window.start, bound, GAP["unknown"], 0)
    return before, bound if before >= 0 else window.start


class Walk:
    """The stretches of a walk in the order of the walk: of nodes that it passes as recorded, and single ones."""

    def __init__(self, graph: Graph, begin: int) -> None:
        self._graph, self._begin = graph, begin
        self._columns = tuple(map(cells, (graph.since, graph.before, graph.bound, graph.followed_to)))
        self.passed = array("i")
        """Nodes that are on the path from `since` on, behind their gap."""
        self._entered: list[tuple[int, int]] = []
        """Places in `passed`, each with the time of the path there; everywhere else the node before leads to it."""
        self._single: list[tuple[int, int, int, int, int]] = []
        self._places: list[int] = []
        """How many nodes are passed before each single stretch."""

    def pass_nodes(self, node: int, now: int) -> tuple[int, int]:
        """Pass nodes from one on as long as they are passed as recorded; return the next one, and when it is reached.

        This is the common case, a fifth of the time of other steps.
        """
        since, before, bound, followed_to = self._columns
        passed, begin = self.passed, self._begin
        self._entered.append((len(passed), now))
        for _ in range(_CHECK_EVERY):
            following, start, moment = before[node], since[node], bound[node]
            until = moment if NONE < moment < start else start
            if following < 0 or now < start or not begin < until < now:
                break
            passed.append(node)
            if node - followed_to[node] > _LEAST_AT_ONCE:
                until, following = self._pass_many(followed_to[node], node)
            now, node = until, following
        return node, now

    def _pass_many(self, first: int, node: int) -> tuple[int, int]:
        """Pass the nodes before one back to `first`, unless the path ends there; return when it is where."""

        def leave(node: int) -> int:
            return int(self._graph.left(slice(node, node + 1))[0])

        last = first + bisect_right(range(first, node), self._begin, key=leave)
        self.passed.frombytes(np.arange(node - 1, last - 1, -1, dtype=np.int32).tobytes())
        return leave(last), self._columns[1][last]

    def put(self, node: int, start: int, end: int, gap: int, cause: int) -> None:
        """Add a stretch."""
        self._single.append((node, start, end, gap, cause))
        self._places.append(len(self.passed))

    def blocks(self) -> Iterator[NodePath]:
        """Yield all stretches in the order of time, in the narrowest types."""
        passed = np.frombuffer(self.passed, dtype=np.int32) if self.passed else np.zeros(0, dtype=np.int32)
        entered = np.array(self._entered, dtype=np.int64).reshape(-1, 2)
        single, places = np.array(self._single, dtype=np.int64).reshape(-1, 5), np.array(self._places, dtype=np.int64)
        firsts = range(0, len(passed) or 1, _BLOCK_NODES)
        for first in reversed(firsts):
            until = len(passed) + 1 if first == firsts[-1] else first + _BLOCK_NODES
            enters = slice(*np.searchsorted(entered[:, 0], (first, until)).tolist())
            apart = slice(*np.searchsorted(places, (first, until)).tolist())
            reached = self._graph.left(passed[max(first - 1, 0) : until])
            reached = np.append(0, reached) if first == 0 else reached  # when the node behind each is left
            reached[entered[enters, 0] - first] = entered[enters, 1]
            yield _join_stretches(self._graph, passed[first:until], reached[:-1], single[apart], places[apart] - first)


def _join_stretches(graph: Graph, node: Array, reached: Array, single: Array, places: Array) -> NodePath:
    """Return the stretches of nodes reached at some times, and single ones, each before the node at its place."""
    since, left = graph.since[node], graph.left(node)
    some = np.stack([since < reached, left < since], axis=1)  # of each node its own time, and the gap before it
    before = np.append(0, np.cumsum(some.sum(axis=1)))[places]  # stretches before each single one

    def join(number: int, own: Array | int, gap: Array, dtype: type[np.signedinteger[Any]]) -> Array:
        pairs = np.empty((len(node), 2), dtype)
        pairs[:, 0], pairs[:, 1] = own, gap
        joined: Array = np.insert(pairs[some], before, single[:, number])[::-1]
        return joined

    gaps, causes = graph.gap[node], graph.cause[node]
    return NodePath(
        node=join(0, node, node, np.int32),
        start=join(1, since, left, np.int64),
        end=join(2, reached, since, np.int64),
        gap=join(3, 0, np.where(gaps > 0, gaps, GAP["unknown"]), np.int8),
        cause=join(4, causes, causes, np.int8),
    )


CPU_CLASSES = ("cpu", "cpu_unrecorded", "data_loader", "synchronization", "unknown")


def class_names(graph: Graph) -> list[str]:
    """Return the class of each number of `node_classes`."""
    return [*CPU_CLASSES, *(name or "unclassified" for name in graph.recording.gpu.classes)]


def segment_classes(graph: Graph, segments: Array) -> Array:
    """Return a number for the class of the own time of some segments."""
    nesting, row = graph.nesting, graph.segments.row[segments]
    unknown = np.isin(segments, graph.unstarted) | graph.is_unexplained(segments)
    conditions = [nesting.in_sync(row), nesting.in_loader(row), unknown, nesting.is_silent(row)]
    return np.select(conditions, [3, 2, 4, 1], 0)


def row_classes(graph: Graph, rows: Array | slice = slice(None)) -> Array:
    """Return a number for the class of each row of a GPU, or of each of some."""
    gpu = graph.recording.gpu
    numbers = gpu.row_class[rows].astype(np.int32)
    numbers[numbers < 0] = len(gpu.classes) - 1
    return numbers + len(CPU_CLASSES)


def path_classes(graph: Graph) -> list[str]:
    """Return the class of each number of `classify`."""
    return [*GAP_CLASSES, *class_names(graph)]


def classify(graph: Graph, path: Path) -> Array:
    """Return a number for the class of each stretch of a path."""
    numbers = path.gap.astype(np.int32)
    on_thread = np.flatnonzero((path.gap == 0) & (path.segment >= 0))
    on_gpu = np.flatnonzero((path.gap == 0) & (path.segment < 0))
    numbers[on_thread] = segment_classes(graph, path.segment[on_thread]) + len(GAP_CLASSES)
    numbers[on_gpu] = row_classes(graph, path.node[on_gpu] - graph.gpu_from) + len(GAP_CLASSES)
    return numbers


UNKNOWN_ON_THREAD = len(GAP_CLASSES) + CPU_CLASSES.index("unknown")
"""The number of `classify` for time of a thread of which nothing shows what it did."""
