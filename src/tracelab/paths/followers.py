"""Set what the rows of GPUs of a part waited for, as it becomes known."""

import numpy as np

from tracelab.paths import dependencies
from tracelab.paths.columns import NONE, Array, blocks
from tracelab.paths.nodes import CAUSE, GAP, Nodes
from tracelab.paths.part_waits import PartWaits

LONGEST_GAP_NS = 1_500_000
"""A GPU row that starts later after what it waited for has an unknown cause; the same limit as HTA's."""
LONGEST_GAP_WITHOUT_EVENTS_NS = 100_000
"""The same for a process whose trace has no waits of streams for events."""
_EARLIEST_START_NS = 1_000_000
"""A row that starts longer than that before its call is not launched by it; the macro launch_end has the same limit."""


class Followers:
    """What rows of GPUs of a part waited for, as it becomes known: a later moment replaces an earlier one.

    Numbers of rows count from the part's first one, those of what they waited for from the first node of all.
    """

    def __init__(self, nodes: Nodes, some: slice, start: Array) -> None:
        """Begin with nodes that start at `start` and waited for nothing."""
        self._before, self._cause, self._gap = nodes.before[some], nodes.cause[some], nodes.gap[some]
        self._start, self._since, self._bound = nodes.start[some], nodes.since[some], nodes.bound[some]
        self._start[:] = self._since[:] = start
        self.clamped = 0

    def starts(self, some: Array) -> Array:
        """Return the starts of some nodes."""
        return self._start[some]

    def put(self, some: Array, before: Array, moment: Array, cause: str, gap: str) -> None:
        """Set what some nodes waited for, and the gap behind it."""
        self._before[some], self._bound[some] = before, moment
        self._cause[some], self._gap[some] = CAUSE[cause], GAP[gap]

    def bind(self, some: Array, before: Array, moment: Array, cause: str, gap: str) -> None:
        """Set what some nodes waited for before their start, where that is later than what is known."""
        start = self._start[some]
        self.clamped += int((moment > start).sum())
        moment = np.minimum(moment, start)
        later = moment > self._bound[some]
        self.put(some[later], before[later], moment[later], cause, gap)

    def name_long_gaps(self, traced: Array) -> None:
        """Name the gap before a row of a GPU unknown where it is too long."""
        for some in blocks(len(traced)):
            limit = np.where(traced[some], LONGEST_GAP_NS, LONGEST_GAP_WITHOUT_EVENTS_NS)
            bound = self._bound[some]
            self._gap[some][(bound != NONE) & (self._start[some] - bound > limit)] = GAP["unknown"]


def await_rows(streams: Followers, end: Array, waits: PartWaits, first: int) -> None:
    """A row of a GPU follows the one before it on its stream, or one of another stream, the one that ends later."""
    edges = waits.edges
    for block in blocks(len(end)):
        some = np.flatnonzero(waits.stream_before[block] >= 0) + block.start
        before = waits.stream_before[some]
        streams.bind(some, before + first, end[before], "stream", "scheduling")
    order = np.lexsort((edges.is_inferred, end[edges.before], edges.after))
    after, before, inferred = edges.after[order], edges.before[order], edges.is_inferred[order]
    latest = np.append(after[1:] != after[:-1], True)[: len(after)]
    for kind, fits in (("event", latest & ~inferred), ("inferred_event", latest & inferred)):
        streams.bind(after[fits], before[fits] + first, end[before[fits]], kind, "scheduling")


def await_launches(streams: Followers, launches: dependencies.Launches, burst: Array) -> None:
    """A row of a GPU follows the start of the call that launched it, if that is later than all else.

    `burst` is the one in which the call's thread is before that start.
    """
    for block in blocks(len(burst)):
        some = np.flatnonzero(launches.thread[block] >= 0) + block.start
        some = some[launches.time[some] - streams.starts(some) <= _EARLIEST_START_NS]
        streams.bind(some, burst[some], launches.time[some], "launch", "launch_latency")


def shift_numbers(numbers: Array, by: int) -> Array:
    """Return numbers of rows or nodes of a part as those of the whole recording; -1, none, stays."""
    shifted: Array = numbers + by
    shifted[numbers < 0] = -1
    return shifted
