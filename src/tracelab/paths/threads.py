"""Divide the time of CPU threads among their innermost rows, without gaps."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tracelab.paths.columns import Array, join_keys, last_at_most, last_below

SILENT = -1
"""Row of a segment in which the thread recorded nothing."""


@dataclass(frozen=True)
class Segments:
    """Stretches of time of threads in order; those of one thread touch each other and reach over all of its rows.

    `row` is the innermost row, or SILENT.
    """

    thread: Array
    start: Array
    last_end: Array
    """The last end on each thread that has segments."""
    row: Array
    parent: Array
    """The row around each row, -1 where there is none."""
    span: int
    """More than any time; a thread's number times it, plus a time, is a key that sorts by thread and time."""

    @cached_property
    def end(self) -> Array:
        """Return when each segment ends: where the next one of its thread starts."""
        end = np.empty_like(self.start)
        end[:-1] = self.start[1:]
        end[np.append(self.thread[1:] != self.thread[:-1], True)[: len(end)]] = self.last_end
        return end

    @cached_property
    def key(self) -> Array:
        """Return thread and start of each segment as one number, in rising order."""
        return join_keys(self.thread, self.span, self.start)

    def at(self, thread: Array, time: Array) -> Array:
        """Return the segment in which a thread is just after a time, -1 where it has none."""
        return self._of_thread(last_at_most(self.key, join_keys(thread, self.span, time)), thread)

    def before(self, thread: Array, time: Array) -> Array:
        """Return the segment in which a thread is just before a time, -1 where it has none."""
        return self._of_thread(last_below(self.key, join_keys(thread, self.span, time)), thread)

    def around(self, thread: Array, time: Array) -> tuple[Array, Array]:
        """Return what `before` and `at` do, by one search."""
        if not len(self.thread):
            return np.full(len(thread), -1), np.full(len(thread), -1)
        wanted = join_keys(thread, self.span, time)
        place = last_at_most(self.key, wanted)
        begins = self.key[place] == wanted
        return self._of_thread(place - begins, thread), self._of_thread(place, thread)

    def _of_thread(self, place: Array, thread: Array) -> Array:
        if not len(self.thread):
            return np.full(len(place), -1)
        return np.where((place >= 0) & (thread >= 0) & (self.thread[place] == thread), place, -1)


def enclosing_rows(thread: Array, start: Array, end: Array) -> Array:
    """Return for each row the innermost row around it on its thread, -1 where there is none.

    Rows are sorted by thread and start, outer rows first. The row around one is the nearest before it that ends no
    earlier. All rows within another one look back at once, past a row that ends too early to that one's own candidate,
    so the number of rounds is the logarithm of the number of siblings.
    """
    candidate = np.full(len(start), -1, dtype=np.int32)
    if not len(start):
        return candidate
    key = join_keys(thread, int(end.max()) + 1, end)
    inside = np.maximum.accumulate(key)[:-1] >= key[1:]  # else nothing before it on its thread ends as late
    waiting = np.flatnonzero(inside) + 1
    candidate[waiting] = waiting - 1
    while len(waiting):
        near = candidate[waiting]
        off = (near >= 0) & (thread[near] != thread[waiting])
        candidate[waiting[off]] = -1
        waiting, near = waiting[~off & (near >= 0)], near[~off & (near >= 0)]
        short = end[near] < end[waiting]
        waiting, near = waiting[short], near[short]
        candidate[waiting] = candidate[near]
    return candidate


def divide_threads(thread: Array, start: Array, end: Array, begin: int) -> Segments:
    """Divide each thread's time from `begin` to its last end among its innermost rows.

    Rows are sorted as for `enclosing_rows`, and begin no earlier than `begin`. Between the starts of one row and the
    next the thread is in the row, then in the rows around it that have not ended.
    """
    parent = enclosing_rows(thread, start, end)
    rows = len(start)
    is_last = np.append(thread[1:] != thread[:-1], True)
    following = np.append(start[1:], 0)
    following[is_last] = np.iinfo(np.int64).max
    goes_on = end < following
    is_led = np.append(True, is_last[:-1]) & (start > begin)  # a silent segment before the first row
    has_own = end > start
    has_own &= following > start
    is_silent = goes_on & (parent < 0) & ~is_last
    count = is_led.astype(np.int8) + has_own + is_silent
    stop = np.cumsum(count)
    place = stop - count
    row = np.full(int(stop[-1]), SILENT, dtype=np.int32)
    since = np.empty(len(row), dtype=np.int64)
    since[place[is_led]] = begin
    own = np.flatnonzero(has_own)
    at = place[own] + is_led[own]
    row[at], since[at] = own, start[own]
    silent = np.flatnonzero(is_silent)
    since[stop[silent] - 1] = end[silent]
    behind = np.repeat(np.arange(rows, dtype=np.int32), count)
    inner = np.flatnonzero(goes_on & (parent >= 0))
    if len(inner):
        outer = _outer_pieces(inner, parent, end, following, is_last)
        behind, row, since = (np.concatenate(parts) for parts in zip((behind, row, since), *outer, strict=True))
        order = np.argsort(behind, kind="stable")  # pieces behind one row were put in their order
        behind, row, since = behind[order], row[order], since[order]
    span = max(int(end.max(initial=1)), 1) + 2
    last_end = np.maximum.reduceat(end, np.flatnonzero(np.append(True, is_last[:-1])))
    return Segments(thread[behind].astype(np.int32), since, last_end, row, parent, span)


def _outer_pieces(
    after: Array, parent: Array, end: Array, following: Array, is_last: Array
) -> list[tuple[Array, Array, Array]]:
    """Return the segments in which threads are in the rows around a row, from its end to the start of the next one.

    A segment is the row behind which it lies, the innermost row, and its start.
    """
    pieces = []

    def put(row: Array, since: Array, until: Array, behind: Array) -> None:
        some = until > since
        pieces.append((behind[some], row[some], since[some]))

    current, since = parent[after], end[after]
    while len(after):
        until = np.minimum(end[current], following[after])
        put(current, since, until, after)
        goes_on = end[current] < following[after]
        after, current, since = after[goes_on], parent[current[goes_on]], np.maximum(since, until)[goes_on]
        outside = current < 0
        silent = outside & ~is_last[after]
        put(np.full(int(silent.sum()), SILENT), since[silent], following[after[silent]], after[silent])
        after, current, since = after[~outside], current[~outside], since[~outside]
    return pieces
