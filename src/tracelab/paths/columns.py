"""Columns of Arrow tables as arrays of whole numbers."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Array = np.ndarray[Any, np.dtype[Any]]

NONE = -(2**62)
"""NULL in arrays of 64 bits: no id, and no time of a valid row."""


@contextlib.contextmanager
def small_pages() -> Iterator[None]:
    """Allocate arrays in small pages. numpy advises huge ones for arrays of 4 MB or more, by default.

    A graph of a million kernels makes hundreds of such arrays, each used for some milliseconds. Where the kernel has no
    huge page free, or the memory of a virtual machine is not backed yet, each one stalls: half of the time of a replay.
    """
    advise = getattr(getattr(np, "_core", None), "multiarray", None)
    advise = getattr(advise, "_set_madvise_hugepage", None)
    was_advised = advise(False) if advise else None  # noqa: FBT003
    try:
        yield
    finally:
        if advise:
            advise(was_advised)


def numbers(table: pa.Table, name: str) -> Array:
    """Return a column of whole numbers, NULL as NONE."""
    column = table.column(name)
    if column.type != pa.int64():
        column = column.cast(pa.int64())
    if column.null_count:
        column = pc.fill_null(column, NONE)
    return np.asarray(column.combine_chunks().to_numpy(zero_copy_only=False), dtype=np.int64)


def codes(table: pa.Table, name: str) -> tuple[Array, list[str | None]]:
    """Return a column of texts as numbers, and the text of each number; NULL is -1, which is the last text."""
    column: Any = table.column(name).combine_chunks()
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    indices = pc.fill_null(column.indices.cast(pa.int32()), -1).to_numpy(zero_copy_only=False)
    return np.asarray(indices, dtype=np.int32), [*column.dictionary.to_pylist(), None]


def group_numbers(*columns: Array) -> tuple[Array, int]:
    """Number the distinct combinations of several columns in sorted order; return the numbers and their count."""
    combined = np.zeros(len(columns[0]), dtype=np.int64)
    count = 1
    for column in columns:
        values, numbered = np.unique(column, return_inverse=True)
        combined = combined * max(1, len(values)) + numbered
        distinct, combined = np.unique(combined, return_inverse=True)
        count = len(distinct)
    return combined, count if len(columns[0]) else 0


def joint_numbers(*relations: Sequence[Array]) -> list[Array]:
    """Number combinations of columns alike in several relations, so that equal combinations have equal numbers.

    Of rows that follow each other with equal values only the first is compared.
    """
    heads = [run_starts(*relation) for relation in relations]
    columns = zip(
        *([column[head] for column in relation] for relation, head in zip(relations, heads, strict=True)), strict=True
    )
    combined, _ = group_numbers(*(np.concatenate(parts) for parts in columns))
    parts = np.split(combined, np.cumsum([len(head) for head in heads])[:-1])
    lengths = (np.diff(head, append=len(relation[0])) for head, relation in zip(heads, relations, strict=True))
    return [np.repeat(part, length) for part, length in zip(parts, lengths, strict=True)]


def run_starts(*columns: Array) -> Array:
    """Return the first row of each run of rows with equal values in all columns."""
    changes = np.ones(len(columns[0]), dtype=bool)
    changes[1:] = False
    for column in columns:
        changes[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(changes)


def cells(array: Array) -> "memoryview[int]":
    """Return a view whose items are Python's numbers: a loop reads them in half the time."""
    return array.data


def last_at_most(keys: Array, wanted: Array) -> Array:
    """Return for each wanted key the place of the last of the sorted keys that is not above it, else -1."""
    return np.searchsorted(keys, wanted, side="right") - 1


def last_below(keys: Array, wanted: Array) -> Array:
    """Return for each wanted key the place of the last of the sorted keys that is below it, else -1."""
    return np.searchsorted(keys, wanted, side="left") - 1
