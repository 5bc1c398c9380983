"""Find where steps begin and end on the threads that mark them."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tracelab.paths.columns import NONE, Array, numbers
from tracelab.paths.graph import Graph
from tracelab.paths.recording import Relations

_COLUMNS = ["rank", "step", "start_ns", "end_ns"]


@dataclass(frozen=True)
class StepMarks:
    """The ranges that mark steps on the ranks of a graph: the segments in which each begins and ends, and when."""

    step: Array
    first: Array
    start: Array
    last: Array
    end: Array

    def of(self, steps: list[int]) -> "StepMarks":
        """Return the marks of some steps."""
        some = np.isin(self.step, steps)
        return StepMarks(self.step[some], self.first[some], self.start[some], self.last[some], self.end[some])


def find_step_marks(graph: Graph, relations: Relations) -> StepMarks:
    """Find the marks of all steps."""
    tables = [relations[name].select(_COLUMNS) for name in ("steps", "serving_steps") if name in relations]
    table, cpu, segments = pa.concat_tables(tables, promote_options="permissive"), graph.recording.cpu, graph.segments
    step, rank = numbers(table, "step"), numbers(table, "rank")
    some = np.flatnonzero(np.isin(rank, list(graph.recording.clocks)) & (step != NONE))
    step, rank = step[some], rank[some]
    start = graph.recording.from_own_clocks(rank, numbers(table, "start_ns")[some])
    end = graph.recording.from_own_clocks(rank, numbers(table, "end_ns")[some])
    ranges = np.flatnonzero(cpu.of_kind("range"))
    ranges = ranges[np.lexsort((cpu.start[ranges], cpu.ranks(ranges)))]
    key = cpu.ranks(ranges) * segments.span + cpu.start[ranges]
    wanted = rank * segments.span + start
    place = np.searchsorted(key, wanted, side="right") - 1
    fits = place >= 0
    fits[fits] = key[place[fits]] == wanted[fits]
    step, lane, start, end = step[fits], cpu.lane[ranges[place[fits]]], start[fits], end[fits]
    first, last = segments.at(lane, start), segments.before(lane, end)
    inside = (first >= 0) & (last >= 0)
    return StepMarks(*(each[inside] for each in (step, first, start, last, end)))
