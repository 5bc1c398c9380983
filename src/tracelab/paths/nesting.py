"""Find in which other rows CPU rows lie: ops, calls that wait, and ranges of data loaders."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tracelab.paths.columns import Array
from tracelab.paths.recording import CpuRows

_OSRT_WAIT = ("wait", "poll", "select", "sleep", "futex", "join", "lock", "recv", "accept", "read")


@dataclass(frozen=True)
class Nesting:
    """CPU rows, the row around each, -1 where there is none, and which of them are calls that wait.

    Of all methods the row -1 is no row.
    """

    cpu: CpuRows
    parent: Array
    sync_calls: Array

    def in_sync(self, rows: Array) -> Array:
        """Return whether rows lie in a call that waits, or are one."""
        return self.lies_in(rows, self._is_sync)

    def in_loader(self, rows: Array) -> Array:
        """Return whether rows lie in a range of a data loader, or are one."""
        return self.lies_in(rows, self._is_loader)

    def lies_in(self, rows: Array, marked: Array) -> Array:
        """Return whether rows are marked or lie in a marked row; `marked` is by CPU row."""
        if not marked.any():
            return np.zeros(len(rows), dtype=bool)
        if len(rows) > self.cpu.count:
            return np.append(self.lies_in(np.arange(self.cpu.count), marked), False)[rows]
        inside, above, waiting = np.zeros(len(rows), dtype=bool), rows, np.arange(len(rows))
        while len(waiting):
            some = above >= 0
            waiting, above = waiting[some], above[some]
            found = marked[above]
            inside[waiting[found]] = True
            waiting, above = waiting[~found], self.parent[above[~found]]
        return inside

    def innermost_ops(self, rows: Array) -> Array:
        """Return the innermost op around each row, the row itself if it is one; -1 where there is none."""
        ops = rows.copy()
        while (waiting := np.flatnonzero(~self._is_op_or_none[ops])).size:
            ops[waiting] = self.parent[ops[waiting]]
        return ops

    def is_silent(self, rows: Array) -> Array:
        """Return whether rows show no work of their thread: no row, ranges, and waits for the operating system."""
        return self._is_silent_or_none[rows]

    @cached_property
    def threads_with_ops(self) -> Array:
        """Return whether each thread runs an op."""
        has_op = np.zeros(len(self.cpu.tid_of_lane), dtype=bool)
        has_op[self.cpu.lane[self._is_op_or_none[:-1]]] = True
        return has_op

    @cached_property
    def _is_sync(self) -> Array:
        marked = np.zeros(self.cpu.count, dtype=bool)
        marked[self.sync_calls] = True
        return marked

    @cached_property
    def _is_loader(self) -> Array:
        return self.cpu.of_kind("loader")

    @cached_property
    def _is_op_or_none(self) -> Array:
        """By row; the last item is that of -1, no row."""
        return np.append(self.cpu.of_kind("op"), True)

    @cached_property
    def _is_silent_or_none(self) -> Array:
        return np.append(~is_active(self.cpu), True)


def is_active(cpu: CpuRows) -> Array:
    """Return whether rows show that their thread works: ops, calls and loaders, but no waits for the system."""
    works: Array = cpu.of_kind("op", "call", "loader")
    if "osrt" in cpu.kinds:
        works |= cpu.of_kind("osrt") & ~is_named(cpu, _OSRT_WAIT)
    return works


def is_named(cpu: CpuRows, words: Sequence[str]) -> Array:
    """Return for each row whether its name has one of the words."""
    return np.array([any(word in (name or "") for word in words) for name in cpu.names])[cpu.name]
