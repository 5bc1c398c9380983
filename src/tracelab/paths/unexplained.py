"""Measure the time on a path in which nothing recorded shows what a thread did, and state what to record."""

from dataclasses import dataclass, replace

import numpy as np

from tracelab.paths.columns import Array, floats
from tracelab.paths.graph import Graph
from tracelab.paths.nodes import GAP
from tracelab.paths.recording import Relations
from tracelab.paths.walk import UNKNOWN_ON_THREAD, Path


@dataclass(frozen=True)
class UnexplainedTime:
    """Time on a path: silent threads may have worked or waited, blocked ones and GPUs waited for what is unknown."""

    silent_ns: int
    blocked_ns: int
    gap_ns: int = 0

    @property
    def total_ns(self) -> int:
        """Return the sum."""
        return self.silent_ns + self.blocked_ns + self.gap_ns

    def __add__(self, other: "UnexplainedTime") -> "UnexplainedTime":
        """Return the time on both of two paths."""
        return UnexplainedTime(
            self.silent_ns + other.silent_ns, self.blocked_ns + other.blocked_ns, self.gap_ns + other.gap_ns
        )

    def describe(self, window_ns: int) -> str | None:
        """Return the shares of a window and what to record, None where there is no such time."""
        least_ns = min(0.005 * window_ns, max(self.silent_ns, self.blocked_ns, self.gap_ns) / 2)  # names no 0 %
        parts = []
        if self.silent_ns > least_ns:
            parts.append(
                f"in {100 * self.silent_ns / window_ns:.0f} % a thread recorded neither op nor call, and may have "
                "worked or waited: record calls of the operating system (nsys profile --trace=cuda,nvtx,osrt) or ops "
                "(torch.profiler)"
            )
        if self.blocked_ns > least_ns:
            parts.append(
                f"in {100 * self.blocked_ns / window_ns:.0f} % a thread waited in a call of the operating system, and "
                "what ended the wait is not recorded"
            )
        if self.gap_ns > least_ns:
            parts.append(
                f"in {100 * self.gap_ns / window_ns:.0f} % a GPU waited, and for what is not recorded: record "
                "synchronization (tracelab collect --syncs, torch.profiler with enable_cuda_sync_events, nsys with "
                "--cuda-event-trace=true)"
            )
        return "; ".join(parts) or None


def measure_unexplained(graph: Graph, path: Path, classes: Array) -> UnexplainedTime:
    """Return the unexplained time of threads on a path, of whose stretches the classes are known."""
    own = np.flatnonzero(classes == UNKNOWN_ON_THREAD)
    own = own[graph.is_unexplained(path.segment[own])]
    spent, row = (path.end - path.start)[own], graph.segments.row[path.segment[own]]
    is_blocked = row >= 0
    is_blocked[is_blocked] = graph.recording.cpu.of_kind("osrt", rows=row[is_blocked])
    return UnexplainedTime(int(spent[~is_blocked].sum()), int(spent[is_blocked].sum()))


def measure_unreplayable(graph: Graph, path: Path, classes: Array) -> UnexplainedTime:
    """Return the unexplained time on a path with that in which GPUs wait for what is not recorded."""
    gap_ns = int((path.end - path.start)[path.gap == GAP["unknown"]].sum())
    return replace(measure_unexplained(graph, path, classes), gap_ns=gap_ns)


@dataclass(frozen=True)
class UnreplacedTime:
    """Time on a path that a replay keeps as it was, though a change may end it: waits of GPUs, and of threads."""

    gap_ns: int
    thread_ns: int

    @property
    def total_ns(self) -> int:
        """Return the sum."""
        return self.gap_ns + self.thread_ns

    def __add__(self, other: "UnreplacedTime") -> "UnreplacedTime":
        """Return the time on both of two paths."""
        return UnreplacedTime(self.gap_ns + other.gap_ns, self.thread_ns + other.thread_ns)

    def open_ns(self, before: "UnreplacedTime") -> int:
        """Return what a run may gain beside what its replay gains: all waits of GPUs, and added ones of threads."""
        return self.gap_ns + max(0, self.thread_ns - before.thread_ns)


def measure_unreplaced(graph: Graph, path: Path, classes: Array) -> UnreplacedTime:
    """Return the time on a path that a replay keeps as it was, though a change may end it: unknown waits.

    These are threads and GPUs that wait for what is not recorded, and silence of threads without any op, beside others
    with ops: such a thread pins memory or watches.
    """
    spent = path.end - path.start
    gap_ns = int(spent[path.gap == GAP["unknown"]].sum())
    own = np.flatnonzero((path.segment >= 0) & (path.gap == 0))
    segments = path.segment[own]
    is_waiting = classes[own] == UNKNOWN_ON_THREAD
    has_op = graph.nesting.threads_with_ops
    if has_op.any():
        is_silent = graph.nesting.is_silent(graph.segments.row[segments])
        is_waiting |= is_silent & ~has_op[graph.segments.thread[segments]]
    return UnreplacedTime(gap_ns, int(spent[own[is_waiting]].sum()))


@dataclass(frozen=True)
class Limit:
    """The largest share of a window that may be unknown."""

    ratio: float

    def refuse_recorded(self, unexplained: UnexplainedTime, window_ns: int) -> str | None:
        """Return why a recording cannot be replayed, if so."""
        if unexplained.total_ns <= self.ratio * window_ns:
            return None
        return f"over {100 * self.ratio:.0f} % of the window cannot be replayed: {unexplained.describe(window_ns)}"

    def refuse_changed(self, before: UnreplacedTime, after: UnreplacedTime, window_ns: int) -> str | None:
        """Return why a replay proves nothing, if so: from what it keeps before and after, and the window after."""
        added_ns = after.total_ns - before.total_ns
        if added_ns <= self.ratio * window_ns:
            return None
        percent = f"{100 * added_ns / window_ns:.0f} %"
        return (
            f"after the change {percent} more of the path is waiting for what is not recorded, "
            "or silence of threads that run no op, such as one that pins memory: the change may end that, too"
        )


def read_limit(relations: Relations) -> Limit:
    """Return the limit of a session, by the macro largest_unknown_ratio()."""
    return Limit(float(floats(relations["limits"], "unknown_ratio")[0]))
