"""Nodes of a run, stretches of threads and rows of GPUs, each with the node that it waited for last."""

from dataclasses import dataclass

from tracelab.paths import dependencies
from tracelab.paths.columns import Array
from tracelab.paths.threads import Segments

CAUSES = (
    "start", "thread", "launch", "stream", "event", "inferred_event", "sync", "collective", "handover", "backward",
)  # fmt: skip
"""What a node waited for; see the columns of `path_rows`."""
CAUSE = {name: number for number, name in enumerate(CAUSES)}

GAP_CLASSES = ("", "launch_latency", "scheduling", "unknown")
GAP = {name: number for number, name in enumerate(GAP_CLASSES)}


@dataclass(frozen=True)
class Followed:
    """What rows of GPUs waited for: the nodes before them, when those were done, and the gap and cause behind."""

    before: Array
    bound: Array
    gap: Array
    cause: Array

    def copy(self) -> "Followed":
        """Return a copy that may be changed."""
        return Followed(self.before.copy(), self.bound.copy(), self.gap.copy(), self.cause.copy())


@dataclass(frozen=True)
class Nodes:
    """Nodes: first the segments of threads, then the rows of GPUs.

    A node is on the path from `since` on; there, `before` is the node that it waited for, on the path until `bound`.
    What lies between is a gap of class `gap`, a number of GAP_CLASSES.
    """

    segments: Segments
    start: Array
    end: Array
    since: Array
    before: Array
    bound: Array
    gap: Array
    cause: Array
    rank: Array
    row: Array
    """The CPU row of a segment, -1 where the thread was silent, or the row of a GPU."""
    op: Array
    """CPU row of the innermost op around a node, or around its launch; -1 where there is none."""
    launch_row: Array
    """The CPU row of a segment, and for a row of a GPU the one in which it was launched; -1 where there is none."""
    is_sync: Array
    """Whether a segment lies in a call that waits."""
    is_silent: Array
    """Whether a segment's thread recorded no op and no call."""
    is_loader: Array
    is_unexplained: Array
    """Whether nothing recorded shows if a segment's thread worked or waited, or what it waited for."""
    waits: dependencies.Edges
    stream_before: Array
    launch_time: Array
    """For each row of a GPU the start of the call that launched it, NONE without a recorded one."""
    launch_thread: Array
    """The thread of that call, else -1."""
    launch_before: Array
    """For each row of a GPU the segment of its thread just before the launch, at the latest before the row's start."""
    launch_at: Array
    """The same just after it; both -1 where there is none."""

    @property
    def gpu_from(self) -> int:
        """Return the number of the first node that is a row of a GPU."""
        return len(self.segments.thread)

    @property
    def is_unstarted(self) -> Array:
        """Whether a segment is the time before the first row of its thread, and nothing shows what that waited for."""
        segments = slice(self.gpu_from)
        unstarted: Array = (self.row[segments] < 0) & (self.before[segments] < 0)
        return unstarted

    def of_rows(self) -> Followed:
        """Return what the rows of GPUs wait for, as known so far."""
        rows = slice(self.gpu_from, None)
        return Followed(
            self.before[rows].copy(), self.bound[rows].copy(), self.gap[rows].copy(), self.cause[rows].copy()
        )
