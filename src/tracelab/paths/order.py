"""Sort the rows of relations by stream or thread, and by time: rows are nearly in order as profilers write them."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tracelab.paths.columns import NONE, Array, codes, number_column, numbers

_KINDS = ("range", "loader", "op")
"""Of CPU rows that begin and end together, these are outermost, in this order."""


def sort_gpu_rows(table: pa.Table) -> pa.Table:
    """Sort rows of GPUs by stream, start and end."""
    streams = [
        _numbers(table, "rank"),
        _sources(table),
        *(_numbers(table, name) for name in ("pid", "device", "stream")),
    ]
    return _sort(table, streams, [numbers(table, "start_ns"), numbers(table, "end_ns")])


def sort_cpu_rows(table: pa.Table) -> pa.Table:
    """Sort rows of CPUs by thread, then by start, an outer row before those inside it."""
    threads = [_numbers(table, "rank"), _sources(table), _numbers(table, "pid"), _numbers(table, "tid")]
    place, kinds = codes(table, "kind")
    kind = np.array([_KINDS.index(each) if each in _KINDS else len(_KINDS) for each in kinds])[place]
    times = [numbers(table, "start_ns"), -numbers(table, "end_ns"), kind, _numbers(table, "correlation")]
    return _sort(table, threads, times)


def _sort(table: pa.Table, groups: Sequence[Array], times: Sequence[Array]) -> pa.Table:
    order = find_order(groups, times)
    return table if order is None else table.take(number_column(order))


def find_order(groups: Sequence[Array], times: Sequence[Array]) -> Array | None:
    """Return the order of rows by `groups`, then `times`; None where they are in order.

    Rows of a file mostly follow each other in time: where they do in all groups, only the groups are sorted.
    """
    keys = [*groups, *times]
    if _is_ordered(keys):
        return None
    order = _order(groups)
    return order if _is_ordered([key[order] for key in keys]) else _order(keys)


def _order(keys: Sequence[Array]) -> Array:
    """Return the order by several keys; rows with equal ones keep theirs."""
    order = np.arange(len(keys[0]))
    for key in reversed(keys):
        column = key[order]
        if (column[1:] >= column[:-1]).all():
            continue
        least = int(column.min())
        if int(column.max()) - least <= np.iinfo(np.uint16).max:
            column = (column - least).astype(np.uint16)  # numpy sorts these in linear time
        order = order[np.argsort(column, kind="stable")]
    return order


def _is_ordered(keys: Sequence[Array]) -> bool:
    """Return whether rows are in the order of several keys."""
    tied = np.ones(max(len(keys[0]) - 1, 0), dtype=bool)
    for key in keys:
        if (tied & (key[1:] < key[:-1])).any():
            return False
        tied &= key[1:] == key[:-1]
        if not tied.any():
            break
    return True


def _numbers(table: pa.Table, name: str) -> Array:
    """Return a column of whole numbers, NULL as the largest: it comes last."""
    column = numbers(table, name)
    return np.where(column == NONE, -NONE, column) if table.column(name).null_count else column


def _sources(table: pa.Table) -> Array:
    """Return the sources as numbers in the order of their texts."""
    place, texts = codes(table, "source")
    rank = {text: number for number, text in enumerate(sorted(text for text in texts if text is not None))}
    return np.array([rank.get(text, len(rank)) if text is not None else len(rank) for text in texts])[place]
