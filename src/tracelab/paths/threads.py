"""Divide the time of CPU threads among their innermost rows, without gaps."""

from dataclasses import dataclass

import numpy as np

from tracelab.paths.columns import Array, last_at_most, last_below

SILENT = -1
"""Row of a segment in which the thread recorded nothing."""


@dataclass(frozen=True)
class Segments:
    """Stretches of time of threads in order; those of one thread touch each other and reach over all of its rows.

    `row` is the innermost row, or SILENT.
    """

    thread: Array
    start: Array
    end: Array
    row: Array
    parent: Array
    """The row around each row, -1 where there is none."""
    span: int
    """More than any time; a thread's number times it, plus a time, is a key that sorts by thread and time."""

    def at(self, thread: Array, time: Array) -> Array:
        """Return the segment in which a thread is just after a time, -1 where it has none."""
        return self._of_thread(last_at_most(self.thread * self.span + self.start, thread * self.span + time), thread)

    def before(self, thread: Array, time: Array) -> Array:
        """Return the segment in which a thread is just before a time, -1 where it has none."""
        return self._of_thread(last_below(self.thread * self.span + self.start, thread * self.span + time), thread)

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
    candidate = np.arange(len(start)) - 1
    if not len(start):
        return candidate
    key = thread * (int(end.max()) + 1) + end
    inside = np.maximum.accumulate(key)[:-1] >= key[1:]  # else nothing before it on its thread ends as late
    candidate[1:][~inside] = -1
    waiting = np.flatnonzero(inside) + 1
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
    is_last = np.ones(rows, dtype=bool)
    is_last[:-1] = thread[1:] != thread[:-1]
    is_first = np.ones(rows, dtype=bool)
    is_first[1:] = is_last[:-1]
    following = np.append(start[1:], 0)
    following[is_last] = np.iinfo(np.int64).max
    pieces: list[tuple[Array, Array, Array, Array]] = []  # after which row, the innermost row, start, end

    def put(after: Array, row: Array, since: Array, until: Array) -> None:
        some = until > since
        pieces.append((after[some], row[some], since[some], until[some]))

    first = np.flatnonzero(is_first)
    put(first, np.full(len(first), SILENT), np.full(len(first), begin), start[first])
    after = np.arange(rows)
    current, since = after.copy(), start.copy()
    while len(after):
        until = np.minimum(end[current], following[after])
        put(after, current, since, until)
        goes_on = end[current] < following[after]
        after, current, since = after[goes_on], parent[current[goes_on]], np.maximum(since, until)[goes_on]
        outside = current < 0
        silent = outside & ~is_last[after]
        put(after[silent], np.full(int(silent.sum()), SILENT), since[silent], following[after[silent]])
        after, current, since = after[~outside], current[~outside], since[~outside]
    behind, row, since, until = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
    order = np.argsort(behind, kind="stable")  # pieces behind one row were put in their order
    span = max(int(end.max(initial=1)), 1) + 2
    return Segments(thread[behind[order]], since[order], until[order], row[order], parent, span)
