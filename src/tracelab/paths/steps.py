"""Find where a step begins and ends on the threads that mark it, in a recording and in its replays."""

from dataclasses import dataclass

import numpy as np

from tracelab.paths.columns import Array, numbers
from tracelab.paths.graph import Graph
from tracelab.paths.recording import Relations
from tracelab.paths.walk import Window


@dataclass(frozen=True)
class StepMarks:
    """The ranges that mark a step, one a rank: the segments in which each begins and ends, and how far within these."""

    first: Array
    begins_after_ns: Array
    last: Array
    ends_before_ns: Array

    def window(self, graph: Graph) -> Window:
        """Return the window of the step in a graph, from its first start on any rank to its last end."""
        if not len(self.first):
            return Window(0, 0, -1)
        ends = graph.ends(self.last) - self.ends_before_ns
        latest = int(np.argmax(ends))
        start = int((graph.starts(self.first) + self.begins_after_ns).min())
        return Window(start, int(ends[latest]), int(graph.bursts(self.last[latest])))


def find_step_marks(graph: Graph, relations: Relations, step: int) -> StepMarks:
    """Find the marks of a step on the ranks that the graph holds."""
    table, cpu, segments = relations["steps"], graph.recording.cpu, graph.segments
    some = np.flatnonzero(numbers(table, "step") == step)
    rank = numbers(table, "rank")[some]
    known = np.isin(rank, list(graph.recording.clocks))
    some, rank = some[known], rank[known]
    start = graph.recording.from_own_clocks(rank, numbers(table, "start_ns")[some])
    end = graph.recording.from_own_clocks(rank, numbers(table, "end_ns")[some])
    ranges = np.flatnonzero(cpu.of_kind("range"))
    ranges = ranges[np.lexsort((cpu.start[ranges], cpu.ranks(ranges)))]
    key = cpu.ranks(ranges) * segments.span + cpu.start[ranges]
    wanted = rank * segments.span + start
    place = np.searchsorted(key, wanted, side="right") - 1
    fits = place >= 0
    fits[fits] = key[place[fits]] == wanted[fits]
    lane, start, end = cpu.lane[ranges[place[fits]]], start[fits], end[fits]
    first, last = segments.at(lane, start), segments.before(lane, end)
    inside = (first >= 0) & (last >= 0)
    first, last, start, end = first[inside], last[inside], start[inside], end[inside]
    return StepMarks(first, start - graph.starts(first), last, graph.ends(last) - end)
