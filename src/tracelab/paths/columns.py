"""Columns of Arrow tables as arrays of whole numbers."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np
import pyarrow as pa

from tracelab.allocator import USUALLY_KEPT_BYTES, keep_freed_memory, return_freed_memory

Array = np.ndarray[Any, np.dtype[Any]]

NONE = -(2**62)
"""NULL in arrays of 64 bits: no id, and no time of a valid row."""


@contextlib.contextmanager
def array_memory() -> Iterator[None]:
    """Allocate arrays, Arrow's too, in small pages, and keep the pages of those that were freed for the next ones.

    A graph of a million kernels makes hundreds of arrays of 8 MB, each used for some milliseconds. By default, numpy
    advises huge pages for them: where the kernel has none free, or the memory of a virtual machine is not backed yet,
    each one stalls. And glibc returns each freed one to the kernel, which clears its pages anew: a third of the time.
    """
    with _without_huge_pages(), _with_freed_memory(), _with_system_pool():
        yield


@contextlib.contextmanager
def _without_huge_pages() -> Iterator[None]:
    advise = getattr(getattr(np, "_core", None), "multiarray", None)
    advise = getattr(advise, "_set_madvise_hugepage", None)
    was_advised = advise(False) if advise else None  # noqa: FBT003
    try:
        yield
    finally:
        if advise:
            advise(was_advised)


@contextlib.contextmanager
def _with_system_pool() -> Iterator[None]:
    """Allocate Arrow's arrays as numpy does: its own pool neither takes pages that numpy freed nor leaves it any."""
    pool = pa.default_memory_pool()
    pa.set_memory_pool(pa.system_memory_pool())
    try:
        yield
    finally:
        pa.set_memory_pool(pool)


_MOST_KEPT_BYTES = 1 << 30


@contextlib.contextmanager
def _with_freed_memory() -> Iterator[None]:
    are_kept = keep_freed_memory(_MOST_KEPT_BYTES)
    try:
        yield
    finally:
        if are_kept:
            keep_freed_memory(USUALLY_KEPT_BYTES)
            return_freed_memory(USUALLY_KEPT_BYTES)


def repeat_number(number: int, length: int) -> Array:
    """Return an array of one number for each row: a view of one item."""
    return np.broadcast_to(np.int64(number), length)


def numbers(table: pa.Table, name: str) -> Array:
    """Return a column of whole numbers, NULL as NONE."""
    column = table.column(name)
    if column.null_count == len(column) > 0:
        return repeat_number(NONE, len(column))
    values, is_null = _read_values(column, pa.int64())
    return values if is_null is None else np.where(is_null, NONE, values)


def sortable_numbers(table: pa.Table, name: str) -> Array:
    """Return a column of whole numbers, NULL as the largest; without NULL they keep their bits."""
    column = table.column(name)
    if column.null_count == len(column) > 0:
        return repeat_number(-NONE, len(column))
    values, is_null = _read_values(column, pa.int64() if column.null_count else column.type)
    return values if is_null is None else np.where(is_null, -NONE, values)


def codes(table: pa.Table, name: str) -> tuple[Array, list[str | None]]:
    """Return a column of texts as numbers, and the text of each number; NULL is -1, which is the last text."""
    if not table.column(name).num_chunks:
        return np.zeros(0, dtype=np.int32), [None]
    column: Any = join_chunks(table.column(name))
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    kind = column.indices.type
    places, is_null = _read_values(column.indices, kind if pa.types.is_signed_integer(kind) else pa.int32())
    places = places if is_null is None else np.where(is_null, places.dtype.type(-1), places)
    return places, [*column.dictionary.to_pylist(), None]


def floats(table: pa.Table, name: str) -> Array:
    """Return a column of floating-point numbers, NULL as NaN."""
    values, is_null = _read_values(table.column(name), pa.float64())
    return values if is_null is None else np.where(is_null, np.nan, values)


def _read_values(column: "pa.ChunkedArray[Any] | pa.Array[Any]", kind: pa.DataType) -> tuple[Array, Array | None]:
    """Return the values of a column, and which of them are NULL, if any.

    Arrow's own conversions import pandas where it is installed, which takes as long as a replay of 300,000 rows.
    """
    dtype = np.dtype(kind.to_pandas_dtype())
    if not len(column):
        return np.zeros(0, dtype=dtype), None
    if isinstance(column, pa.ChunkedArray):
        column = join_chunks(column)
    if column.type != kind:
        column = column.cast(kind)
    buffers: list[Any] = column.buffers()
    since, until = column.offset, column.offset + len(column)
    values = np.frombuffer(buffers[1], dtype, until)[since:]
    if not column.null_count:
        return values, None
    valid = np.frombuffer(buffers[0], np.uint8)
    bits = np.unpackbits(valid, count=until, bitorder="little")
    return values, bits[since:] == 0


def join_chunks(column: "pa.ChunkedArray[Any]") -> "pa.Array[Any]":
    """Return a column as one array; a single chunk as it is, which Arrow would copy."""
    joined: Any = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return cast("pa.Array[Any]", joined)


def number_column(values: Array, is_null: Array | None = None) -> "pa.Array[Any]":
    """Return an Arrow column of whole numbers; like the next ones, without pandas."""
    values = np.ascontiguousarray(values)
    return _build_column(pa.from_numpy_dtype(values.dtype), len(values), is_null, values)


def nullable_column(values: Sequence[int | None]) -> "pa.Array[Any]":
    """Return an Arrow column of some whole numbers."""
    is_null = np.array([value is None for value in values], dtype=bool)
    return number_column(np.array([value or 0 for value in values], dtype=np.int64), is_null)


def narrow_column(values: Array, is_null: Array | None = None) -> "pa.Array[Any]":
    """Return a column of whole numbers of as few bytes as the largest of them needs."""
    values = values if is_null is None else np.where(is_null, 0, values)
    return number_column(values.astype(_narrow_type(values)), is_null)


def narrow_integers(column: "pa.Array[Any]") -> "pa.Array[Any] | None":
    """Return a column of signed whole numbers in as few bytes as they need, None where these are all of its bytes."""
    values, is_null = _read_values(column, column.type)
    values = values if is_null is None else np.where(is_null, 0, values)
    dtype = _narrow_type(values)
    return number_column(values.astype(dtype), is_null) if dtype.itemsize < values.itemsize else None


def _narrow_type(values: Array) -> np.dtype[Any]:
    extremes = (int(values.min(initial=0)), int(values.max(initial=0)))
    return np.result_type(*(np.min_scalar_type(min(each, -1 - each)) for each in extremes))


def boolean_column(values: Array) -> "pa.Array[Any]":
    """Return an Arrow column of booleans."""
    return _build_column(pa.bool_(), len(values), None, np.packbits(values, bitorder="little"))


def text_column(texts: Sequence[str | None]) -> "pa.Array[Any]":
    """Return an Arrow column of some texts."""
    encoded = [(text or "").encode() for text in texts]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    is_null = np.array([text is None for text in texts], dtype=bool)
    return _build_column(pa.string(), len(encoded), is_null, ends, b"".join(encoded))


def _build_column(kind: pa.DataType, length: int, is_null: Array | None, *parts: Any) -> "pa.Array[Any]":  # noqa: ANN401
    """Return an Arrow column of buffers."""
    valid = None if is_null is None else pa.py_buffer(np.packbits(~is_null, bitorder="little").tobytes())
    return pa.Array.from_buffers(kind, length, [valid, *map(pa.py_buffer, parts)])


def group_numbers(*columns: Array) -> tuple[Array, int]:
    """Number the distinct combinations of several columns in sorted order; return the numbers and their count."""
    combined, count = np.zeros(len(columns[0]), dtype=np.int64), min(1, len(columns[0]))
    for column in columns:
        numbered, values = _number_values(column)
        combined, count = _number_values(combined * values + numbered)
    return combined, count


def _number_values(column: Array) -> tuple[Array, int]:
    """Number the distinct values of a column in sorted order, without a sort where they lie close together."""
    least, most = int(column.min(initial=0)), int(column.max(initial=0))
    if most - least > len(column):
        values, numbered = np.unique(column, return_inverse=True)
        return numbered, len(values)
    place = column.astype(np.int64) - least
    numbers_of_values = np.zeros(most - least + 1, dtype=np.int64)
    numbers_of_values[place] = 1
    np.cumsum(numbers_of_values, out=numbers_of_values)
    return numbers_of_values[place] - 1, int(numbers_of_values[-1])


def join_keys(lane: Array, span: int, time: Array) -> Array:
    """Return lanes and times below a span as one number each, which sorts by both; lanes may have fewer bits."""
    keys: Array = np.multiply(lane, span, dtype=np.int64)
    keys += time
    return keys


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


def blocks(rows: int) -> Iterator[slice]:
    """Yield rows in blocks: their arrays stay in the cache, and take little memory."""
    for since in range(0, rows, _BLOCK_ROWS):
        yield slice(since, since + _BLOCK_ROWS)


_BLOCK_ROWS = 1 << 16


def cells(array: Array) -> "memoryview[int]":
    """Return a view whose items are Python's numbers: a loop reads them in half the time."""
    return array.data


def find_sorted(known: Array, keys: Array) -> Array:
    """Return the place of each key among sorted ones, of equal ones the first; -1 where there is none."""
    if not len(known):
        return np.full(len(keys), -1)
    place = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    return np.where((known[place] == keys) & (keys != NONE), place, -1)


def find_keys(known: Array, keys: Array) -> Array:
    """Return the place of each key among others in any order, of equal ones the first; -1 where there is none."""
    order = np.argsort(known, kind="stable")
    place = find_sorted(known[order], keys)
    return np.where(place >= 0, order[place], -1) if len(order) else place


def last_at_most(keys: Array, wanted: Array) -> Array:
    """Return for each wanted key the place of the last of the sorted keys that is not above it, else -1."""
    return np.searchsorted(keys, wanted, side="right") - 1


def last_below(keys: Array, wanted: Array) -> Array:
    """Return for each wanted key the place of the last of the sorted keys that is below it, else -1."""
    return np.searchsorted(keys, wanted, side="left") - 1
