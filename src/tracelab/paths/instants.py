"""Instants on threads and in rows of GPUs, which move with these where a replay moves them."""

from dataclasses import dataclass

import numpy as np

from tracelab.paths.columns import NONE, Array
from tracelab.paths.graph import Graph
from tracelab.paths.walk import Path

_PARTS = ("gap", "wait", "own", "start")
"""Where an instant lies: in the gap before a node, in its wait or own time; else its distance to the start stays."""


@dataclass(frozen=True)
class Instants:
    """Instants, each by its node and segment, the part of it, its distance from the part's start, and its length."""

    node: Array
    segment: Array
    """The segment of a thread, -1 of a row of a GPU."""
    part: Array
    after_ns: Array
    length_ns: Array

    def times(self, graph: Graph) -> list[int]:
        """Return when the instants are in a graph of the same nodes: parts that change keep the shares before them."""
        columns = (self.node, self.segment, self.part, self.after_ns, self.length_ns)
        return [_move(graph, *each) for each in zip(*(column.tolist() for column in columns), strict=True)]


@dataclass(frozen=True)
class Progress:
    """What GPUs have done by a time of a recording: the rows that end by then, and the parts of those that run."""

    ends: Array
    """When the rows of GPUs end in the recording."""
    time: int
    running: Instants

    def reach(self, graph: Graph) -> tuple[int, int]:
        """Return when all of it is done in a graph of the same nodes, and the node that is last; -1 for none."""
        reached = [(time, int(node)) for time, node in zip(self.running.times(graph), self.running.node, strict=True)]
        if (over := np.flatnonzero(self.ends <= self.time)).size:
            ends = graph.end[graph.gpu_from :][over]
            last = int(np.argmax(ends))
            reached.append((int(ends[last]), int(over[last]) + graph.gpu_from))
        return max(reached, default=(NONE, -1))


def find_progress(graph: Graph, time: int) -> Progress:
    """Return what GPUs have done by a time."""
    starts, ends = graph.start[graph.gpu_from :], graph.end[graph.gpu_from :]
    running = np.flatnonzero((starts < time) & (ends > time)) + graph.gpu_from
    none = np.full(len(running), -1)
    return Progress(ends, time, _place(graph, running, none, np.full(len(running), time), in_gap=False))


def _move(graph: Graph, node: int, segment: int, part: int, after_ns: int, length_ns: int) -> int:
    begin, end = _bounds(graph, node, segment, part)
    if after_ns >= length_ns or _PARTS[part] == "start":
        return end + after_ns - length_ns
    return begin + after_ns * (end - begin) // length_ns


def _bounds(graph: Graph, node: int, segment: int, part: int) -> tuple[int, int]:
    start, since, bound, end = (int(times[node]) for times in (graph.start, graph.since, graph.bound, graph.end))
    own = since
    if segment >= 0:
        segments, bursts = np.array([segment]), np.array([node])
        own = since + int(graph.work.before(segments, bursts)[0])
        start, end = int(graph.starts(segments)[0]), int(graph.ends(segments)[0])
    match _PARTS[part]:
        case "gap":
            return (bound if NONE < bound < since else since), since
        case "wait":
            return start, own
        case "own":
            return own, end
    return start, start


def place_instants(graph: Graph, segment: Array, times: Array) -> Instants:
    """Return instants at some times in segments of threads."""
    return _place(graph, graph.bursts(segment), segment, times, in_gap=False)


def place_on_path(graph: Graph, path: Path, time: int, *, is_end: bool) -> Instants:
    """Return the instant at a time in the stretch of a path that ends then or holds it, or else that begins then."""
    place = [int(np.searchsorted(path.start, time, side="left" if is_end else "right")) - 1]
    is_gap = bool(path.gap[place[0]] > 0)
    return _place(graph, path.node[place], path.segment[place], np.array([time]), in_gap=is_gap)


def _place(graph: Graph, node: Array, segment: Array, times: Array, *, in_gap: bool) -> Instants:
    """Return instants at some times in nodes, each in the gap before its node where `in_gap`."""
    parts, after, lengths = [], [], []
    for each, of_thread, time in zip(node.tolist(), segment.tolist(), times.tolist(), strict=True):
        begins = time == _bounds(graph, each, of_thread, _PARTS.index("start"))[0]
        wanted = ("gap",) if in_gap else () if begins else ("own", "wait")
        for part in (*map(_PARTS.index, wanted), _PARTS.index("start")):
            begin, end = _bounds(graph, each, of_thread, part)
            if begin <= time <= end or _PARTS[part] == "start":
                parts.append(part)
                after.append(time - begin)
                lengths.append(end - begin)
                break
    return Instants(node, segment, *(np.array(column, dtype=np.int64) for column in (parts, after, lengths)))
