"""Sort the rows of relations by stream or thread, and by time: rows are nearly in order as profilers write them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from tracelab.paths.columns import Array, codes, group_numbers, number_column, numbers, run_starts, sortable_numbers

_KINDS = ("range", "loader", "op")
"""Of CPU rows that begin and end together, these are outermost, in this order."""
_MOST_SMALL = np.iinfo(np.uint16).max
"""numpy sorts numbers up to this one in linear time."""
_MOST_LANES = 10_000
"""Lanes that are sorted one by one: each costs some calls of numpy."""


@dataclass(frozen=True)
class SortedRows:
    """Rows of a table in the order of lanes, which are streams, threads or processes, then of time.

    `rows` are their places in the table, None where that is in order, and `first` the first row of each lane.
    """

    table: pa.Table
    rows: Array | None
    first: Array

    def __len__(self) -> int:
        """Return the number of rows."""
        return self.table.num_rows if self.rows is None else len(self.rows)

    @property
    def lengths(self) -> Array:
        """Return the number of rows of each lane."""
        return np.diff(self.first, append=len(self))

    def numbers(self, name: str) -> Array:
        """Return a column of whole numbers, NULL as NONE."""
        return self._sorted(numbers(self.table, name))

    def codes(self, name: str) -> tuple[Array, list[str | None]]:
        """Return a column of texts as numbers, and the text of each number, as `columns.codes` does."""
        places, texts = codes(self.table, name)
        return self._sorted(places), texts

    def _sorted(self, column: Array) -> Array:
        if self.rows is None:
            return column
        is_view_of_one = len(column) and not column.strides[0]
        return np.broadcast_to(column[0], len(self.rows)) if is_view_of_one else column[self.rows]

    def numbers_of_lanes(self, name: str) -> Array:
        """Return the number of each lane in a column in which it is constant."""
        return numbers(self._of_lanes(name), name)

    def codes_of_lanes(self, name: str) -> tuple[Array, list[str | None]]:
        """Return the text of each lane in a column in which it is constant, as a number, and the texts."""
        return codes(self._of_lanes(name), name)

    def _of_lanes(self, name: str) -> pa.Table:
        places = self.first if self.rows is None else self.rows[self.first]
        return self.table.select([name]).take(number_column(places))

    def keep(self, some: Array) -> "SortedRows":
        """Return the rows of which `some` is true; a lane without any ceases to exist."""
        if some.all():
            return self
        lane = np.repeat(np.arange(len(self.first)), self.lengths)[some]
        rows = np.flatnonzero(some) if self.rows is None else self.rows[some]
        return replace(self, rows=rows, first=run_starts(lane))


def sort_gpu_rows(table: pa.Table) -> SortedRows:
    """Sort rows of GPUs by stream, start and end."""
    return _sort(table, ("device", "stream"), [lambda: numbers(table, "end_ns")])


def sort_cpu_rows(table: pa.Table) -> SortedRows:
    """Sort rows of CPUs by thread, then by start, an outer row before those inside it."""

    def kinds() -> Array:
        place, texts = codes(table, "kind")
        return np.array([_KINDS.index(text) if text in _KINDS else len(_KINDS) for text in texts], np.int8)[place]

    ties: list[Callable[[], Array]] = [
        lambda: -numbers(table, "end_ns"), kinds, lambda: sortable_numbers(table, "correlation"),
    ]  # fmt: skip
    return _sort(table, ("tid",), ties)


def sort_syncs(table: pa.Table) -> SortedRows:
    """Sort synchronizations by process and start."""
    return _sort(table, (), [])


def _sort(table: pa.Table, parts: Sequence[str], ties: Sequence[Callable[[], Array]]) -> SortedRows:
    """Sort rows by rank, source, process and its parts, then by start and what decides between equal ones."""
    rank, *others = (sortable_numbers(table, name) for name in ("rank", "pid", *parts))
    groups = [rank, _sources(table), *others]
    order = find_order(groups, numbers(table, "start_ns"), ties)
    first = run_starts(*(groups if order is None else [group[order] for group in groups]))
    return SortedRows(table, order, first)


def find_order(groups: Sequence[Array], start: Array, ties: Sequence[Callable[[], Array]]) -> Array | None:
    """Return the order of rows by `groups`, `start`, and the columns that `ties` read; None where they are in order.

    Rows of a file mostly follow each other in time: where they do in all groups, only the groups are sorted.
    """
    heads = run_starts(*groups)
    number = group_numbers(*(group[heads] for group in groups))[0]
    is_grouped = (number[1:] > number[:-1]).all()
    lane = np.repeat(number.astype(np.int32), np.diff(heads, append=len(start)))
    order = None if is_grouped else _argsort(lane)
    if _is_ordered(lane, start, ties, order):
        return order
    return _sort_ties(lane, start, ties, _order_by_time(lane, start, order))


def _order_by_time(lane: Array, start: Array, order: Array | None) -> Array:
    """Return the order by lane and start, given the one by lane; rows with equal ones keep theirs.

    The rows of a lane are a few stretches in order, one a table, which a sort merges; they stay in the cache.
    """
    order = np.arange(len(lane)) if order is None else order
    first = run_starts(lane[order])
    if len(first) > _MOST_LANES:
        return _order([lane, start])
    start = start[order]
    for since, until in pairwise([*first.tolist(), len(order)]):
        of_lane = start[since:until]
        if (of_lane[1:] < of_lane[:-1]).any():
            order[since:until] = order[since:until][np.argsort(of_lane, kind="stable")]
    return order


def _sort_ties(lane: Array, start: Array, ties: Sequence[Callable[[], Array]], order: Array) -> Array:
    """Sort rows that are in order but for those of one lane that start together, which are few."""
    lane, start = lane[order], start[order]
    same = (lane[1:] == lane[:-1]) & (start[1:] == start[:-1])
    tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
    rows = order[tied]
    order[tied] = rows[_order([lane[tied], start[tied], *(read()[rows] for read in ties)])]
    return order


def _is_ordered(lane: Array, start: Array, ties: Sequence[Callable[[], Array]], order: Array | None) -> bool:
    """Return whether rows that are in the order of their lanes are in the order of time."""
    if order is not None:
        lane, start = lane[order], start[order]
    same = lane[1:] == lane[:-1]
    if (same & (start[1:] < start[:-1])).any():
        return False
    tied = np.flatnonzero(same & (start[1:] == start[:-1])) + 1
    for read in ties:
        if not len(tied):
            break
        column = read()
        later, sooner = (
            (column[tied], column[tied - 1]) if order is None else (column[order[tied]], column[order[tied - 1]])
        )
        if (later < sooner).any():
            return False
        tied = tied[later == sooner]
    return True


def _order(keys: Sequence[Array]) -> Array:
    """Return the order by several keys; rows with equal ones keep theirs."""
    order = np.arange(len(keys[0]))
    for key in reversed(keys):
        column = key[order]
        if (column[1:] < column[:-1]).any():
            order = order[_argsort(column)]
    return order


def _argsort(column: Array) -> Array:
    """Return the order by a column; rows with equal values keep theirs."""
    least, most = int(column.min(initial=0)), int(column.max(initial=0))
    if most - least <= _MOST_SMALL:
        column = np.subtract(column, least, dtype=np.result_type(column, np.int32)).astype(np.uint16)
    order: Array = np.argsort(column, kind="stable")
    return order


def _sources(table: pa.Table) -> Array:
    """Return the sources as numbers in the order of their texts."""
    place, texts = codes(table, "source")
    rank = {text: number for number, text in enumerate(sorted(text for text in texts if text is not None))}
    return np.array([rank.get(text, len(rank)) if text is not None else len(rank) for text in texts], np.int32)[place]
