"""Find the windows of a path: all of a recording, some of its steps, or what lies between two times."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from tracelab.paths.columns import Array
from tracelab.paths.graph import Graph
from tracelab.paths.instants import Instants, Progress, find_progress, place_instants, place_on_path
from tracelab.paths.recording import Relations
from tracelab.paths.scope import PathScope, find_times, holds_number
from tracelab.paths.steps import find_step_marks
from tracelab.paths.walk import Path, Window, find_path, join_paths, whole_window


@dataclass(frozen=True)
class Border:
    """Where windows begin or end: at instants on threads or a path, once GPUs have done what they had by then.

    Threads run ahead of GPUs: in a replay they may pass their instants long before the work of the window is done.
    """

    marks: Instants
    progress: Progress

    def reach(self, graph: Graph, *, is_end: bool) -> tuple[int, int]:
        """Return when the border is in a graph of the same nodes, and the node there.

        A beginning is the first of its instants, an end the last one.
        """
        times = self.marks.times(graph)
        place = int(np.argmax(times) if is_end else np.argmin(times))
        time, node = times[place], int(self.marks.node[place])
        done, last = self.progress.reach(graph)
        return (done, last) if done > time else (time, node)


@dataclass(frozen=True)
class Marks:
    """What begins and ends a window in a graph and in its replays; None where the recording does."""

    begin: Border | None = None
    end: Border | None = None

    def window(self, graph: Graph) -> Window:
        """Return the window in a graph of the same nodes."""
        window = whole_window(graph)
        if self.begin is not None:
            window = replace(window, start=self.begin.reach(graph, is_end=False)[0])
        if self.end is not None:
            time, node = self.end.reach(graph, is_end=True)
            window = replace(window, end=time, node=node)
        return window


@dataclass(frozen=True)
class Windows:
    """The windows of a scope, one after another."""

    marks: tuple[Marks, ...]

    @property
    def are_whole(self) -> bool:
        """Whether they are all of the recording."""
        return all(each.begin is None and each.end is None for each in self.marks)

    def of(self, graph: Graph) -> list[Window]:
        """Return the windows in a graph of the same nodes, each without the time of those before it."""
        windows: list[Window] = []
        for each in self.marks:
            window = each.window(graph)
            start = max([window.start, *(other.end for other in windows)])
            if window.node >= 0 and start < window.end:
                windows.append(replace(window, start=start))
        return windows


def window_ns(windows: list[Window]) -> int:
    """Return the length of all windows together."""
    return sum(each.end - each.start for each in windows)


def walk_windows(graph: Graph, windows: list[Window], check: Callable[[], None]) -> Iterator[Path]:
    """Yield the stretches of the path in each window, one window after another."""
    for each in windows:
        yield from find_path(graph, each, check)


def start_within(windows: list[Window], times: Array) -> Array:
    """Return which times lie in a window."""
    within = np.zeros(len(times), dtype=bool)
    for each in windows:
        within |= (times >= each.start) & (times < each.end)
    return within


def find_windows(
    graph: Graph, relations: Relations, step: int | None, scope: PathScope, check: Callable[[], None]
) -> Windows:
    """Find the windows of a step, and of the steps and times of a scope: that in which all of these are."""
    found = (Marks(),) if step is None and scope.steps is None else _find_steps(graph, relations, step, scope)
    begin, end = find_times(graph, relations, scope)
    if begin is None and end is None:
        return Windows(found)
    return Windows(tuple(cut for marks in found for cut in _cut(graph, marks, begin, end, check)))


def _find_steps(graph: Graph, relations: Relations, step: int | None, scope: PathScope) -> tuple[Marks, ...]:
    """Return the windows of steps: one for those that follow each other in the recording, or run at the same time."""
    marks = find_step_marks(graph, relations)
    groups: list[list[int]] = []
    place_before, end_before = -1, -1
    for place, each in enumerate(np.unique(marks.step).tolist()):
        if (step is not None and each != step) or not (scope.steps is None or holds_number(scope.steps, each)):
            continue
        own = marks.of([each])
        if groups and (place_before == place - 1 or int(own.start.min()) < end_before):
            groups[-1].append(each)
        else:
            groups.append([each])
        place_before, end_before = place, max(end_before, int(own.end.max()))
    found = [marks.of(steps) for steps in groups]
    return tuple(
        Marks(
            Border(place_instants(graph, own.first, own.start), find_progress(graph, int(own.start.min()))),
            Border(place_instants(graph, own.last, own.end), find_progress(graph, int(own.end.max()))),
        )
        for own in found
    )


def _cut(graph: Graph, marks: Marks, begin: int | None, end: int | None, check: Callable[[], None]) -> list[Marks]:
    """Return a window cut at two times, where its path is then: nothing where none of it is left."""
    window = marks.window(graph)
    first = window.start if begin is None else max(begin, window.start)
    last = window.end if end is None else min(end, window.end)
    if window.node < 0 or first >= last:
        return []
    if (first, last) == (window.start, window.end):
        return [marks]
    path = join_paths(find_path(graph, window, check))
    if first > window.start:
        begin_marks = place_on_path(graph, path, first, is_end=False)
        marks = replace(marks, begin=Border(begin_marks, find_progress(graph, first)))
    if last < window.end:
        end_marks = place_on_path(graph, path, last, is_end=True)
        marks = replace(marks, end=Border(end_marks, find_progress(graph, last)))
    return [marks]
