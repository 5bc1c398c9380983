"""Nodes of a run, bursts of threads and rows of GPUs, each with the node that it waited for last."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tracelab.paths import dependencies
from tracelab.paths.columns import NONE, Array, find_sorted, last_at_most, repeat_number
from tracelab.paths.nesting import Nesting
from tracelab.paths.threads import Segments

CAUSES = (
    "start", "thread", "launch", "stream", "event", "inferred_event", "sync", "collective", "handover", "backward",
)  # fmt: skip
"""What a node waited for; see the columns of `path_rows`."""
CAUSE = {name: number for number, name in enumerate(CAUSES)}

GAP_CLASSES = ("", "launch_latency", "scheduling", "unknown")
GAP = {name: number for number, name in enumerate(GAP_CLASSES)}


@dataclass(frozen=True)
class Nodes:
    """Nodes: first the bursts of threads, then the rows of GPUs.

    A burst is what a thread does from one wait to the next one: segments that follow each other. A node is on the path
    from `since` on; there, `before` is the node that it waited for, on the path until `bound`. What lies between is a
    gap of class `gap`, a number of GAP_CLASSES.
    """

    segments: Segments
    nesting: Nesting
    head: Array
    """The first segment of each burst: of a thread, or one in which it waits."""
    start: Array
    end: Array
    since: Array
    before: Array
    bound: Array
    gap: Array
    cause: Array
    awaited_segment: Array
    """For each burst the segment of another thread that it waited for, -1 where there is none."""
    unexplained: Array
    """The segments of which nothing recorded shows if their thread worked or waited, or what it waited for."""
    waits: dependencies.Edges
    launch_row: Array
    """For each row of a GPU the CPU row in which it was launched, -1 where there is none."""
    launch_call: Array
    """For each row of a GPU the call that launched it, as a CPU row; -1 without a recorded one."""
    launch_before: Array
    """For each row of a GPU the burst of its thread just before the launch, at the latest before the row's start."""
    launch_at: Array
    """The segment just after it; both -1 where there is none."""

    @property
    def gpu_from(self) -> int:
        """Return the number of the first node that is a row of a GPU."""
        return len(self.head)

    @property
    def launch_time(self) -> Array:
        """Return for each row of a GPU the start of the call that launched it, NONE without a recorded one."""
        return self._of_calls(self.nesting.cpu.start, NONE)

    @property
    def launch_thread(self) -> Array:
        """Return the thread of that call, else -1."""
        return self._of_calls(self.nesting.cpu.lane, -1)

    def _of_calls(self, column: Array, none: int) -> Array:
        call = self.launch_call
        return np.where(call >= 0, column[call], none) if len(column) else repeat_number(none, len(call))

    @property
    def thread(self) -> Array:
        """Return the thread of each burst."""
        return self.segments.thread[self.head]

    def bursts(self, segments: Array) -> Array:
        """Return the burst of each segment; of -1, no segment, -1."""
        return last_at_most(self.head, segments)

    def is_unexplained(self, segments: Array) -> Array:
        """Return for each segment whether nothing recorded shows what its thread did."""
        return find_sorted(self.unexplained, segments) >= 0

    @cached_property
    def unstarted(self) -> Array:
        """Return the segments before the first row of their thread, where nothing shows what that waited for."""
        return self.head[(self.segments.row[self.head] < 0) & (self.before[: self.gpu_from] < 0)]
