"""Some rows of an export's table, and the ways in which its columns become canonical ones."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracelab.readers.diagnostics import DiagnosticCounts
from tracelab.readers.nsys.coerce import to_int32
from tracelab.readers.nsys.enums import Enums
from tracelab.readers.nsys.export import ARROW, Array, Kind
from tracelab.readers.nsys.string_table import StringTable, build_dictionary, map_distinct_coded

NO_ID = pa.array([-1, (1 << 32) - 1])
"""What stands in a field of an id where there is none: -1, signed or as 32 unsigned bits."""

_NO_LINK = pa.array([0, -1, (1 << 32) - 1])
_OUT_OF_RANGE = 1 << 62
_MAX_DICTIONARY = 4_096
"""Distinct texts of a batch that are worth a dictionary."""


@dataclass(frozen=True)
class Session:
    """What the whole export says, and every batch needs."""

    strings: StringTable
    enums: Enums
    shift_ns: int = 0
    """Added to times: when the session started, in unix ns."""
    dur_ns: int | None = None
    """How long the session lasted."""
    domains: Mapping[tuple[int | None, int], str] = field(default_factory=dict)
    """NVTX domains by process and id."""
    categories: Mapping[tuple[int | None, int, int], str] = field(default_factory=dict)
    """NVTX categories by process, domain and id."""
    records: Mapping[tuple[int, int, int], tuple[int, int]] = field(default_factory=dict)
    """Stream and correlation of event records by process, event and record."""
    calls_twice: frozenset[tuple[int, int]] = frozenset()
    """Thread and correlation of the calls that stand twice in the export."""


@dataclass(frozen=True)
class Batch:
    """Rows of one table as they stand in the export."""

    table: str
    rows: pa.Table
    session: Session
    diagnostics: DiagnosticCounts

    def column(self, name: str, kind: Kind = "int") -> Array:
        """A column as it stands; NULL where the table has none."""
        if name in self.rows.column_names:
            return self.rows.column(name).combine_chunks()
        return pa.nulls(self.rows.num_rows, ARROW[kind])


Value = Callable[[Batch], Array]
"""How one canonical column comes of a batch."""


def number(name: str) -> Value:
    """A number as it stands."""
    return lambda batch: batch.column(name)


def int32(name: str) -> Value:
    """A number of 32 bits."""
    return lambda batch: to_int32(batch.column(name), name, batch.diagnostics)


def id_or_null(name: str) -> Value:
    """An id."""
    return lambda batch: _null_where_absent(batch.column(name), NO_ID)


def device(name: str) -> Value:
    """An ordinal of a device."""
    return lambda batch: to_int32(_null_where_absent(batch.column(name), NO_ID), name, batch.diagnostics)


def link(name: str) -> Value:
    """An id whose 0, too, says that there is none."""
    return lambda batch: _null_where_absent(batch.column(name), _NO_LINK)


def pid(name: str) -> Value:
    """The process of a global id: bits 24 to 47."""
    return lambda batch: pc.bit_wise_and(pc.shift_right(batch.column(name), 24), (1 << 24) - 1)


def tid(name: str) -> Value:
    """The thread of a global id: the lowest 24 bits."""
    return lambda batch: pc.bit_wise_and(batch.column(name), (1 << 24) - 1)


def time(name: str) -> Value:
    """A time of the session, on the source's clock."""

    def shifted(batch: Batch) -> Array:
        return pc.add(_null_out_of_range(batch.column(name), name, batch.diagnostics), batch.session.shift_ns)

    return shifted


def duration(start: str, end: str) -> Value:
    """From a start to an end."""

    def between(batch: Batch) -> Array:
        starts = _null_out_of_range(
            batch.column(start), start, DiagnosticCounts()
        )  # noted where the start becomes a column
        return pc.subtract(_null_out_of_range(batch.column(end), end, batch.diagnostics), starts)

    return between


def text_of_id(*names: str, change: Callable[[str], str] | None = None) -> Value:
    """The text of the first of some string ids, changed."""

    def looked_up(batch: Batch) -> Array:
        present = [name for name in names if name in batch.rows.column_names]
        if not present:
            return pa.nulls(batch.rows.num_rows, pa.string())
        ids = batch.column(present[0])
        for name in present[1:]:
            if not ids.null_count:
                break
            ids = pc.coalesce(ids, batch.column(name))
        return batch.session.strings.coded(ids, batch.diagnostics, change)

    return looked_up


def label(name: str, table: str, change: Callable[[str | None], str | None]) -> Value:
    """What the number stands for."""

    def labelled(batch: Batch) -> Array:
        names = batch.session.enums[table]

        def changed(numbers: Array) -> Array:
            return pa.array([change(names.get(value)) for value in numbers.to_pylist()], pa.string())

        return map_distinct_coded(batch.column(name), changed)

    return labelled


def constant(value: str) -> Value:
    """The same text in every row."""
    return lambda batch: pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0), batch.rows.num_rows), pa.array([value]))


def count_outside_session(batch: Batch) -> int:
    """How many rows begin before the session did, or end after it."""
    if batch.session.dur_ns is None or "start" not in batch.rows.column_names:
        return 0
    starts = batch.column("start")
    ends = pc.coalesce(batch.column("end"), starts)
    beyond = pc.or_kleene(pc.less(starts, 0), pc.greater(ends, batch.session.dur_ns))
    return int(pc.sum(beyond).as_py() or 0)


def build_args(batch: Batch, names: list[str], *, keep_zero: bool) -> Array:
    """Some columns as one JSON object a row, without what is NULL (or 0); NULL where nothing is left.

    The text is made once for each combination of values that occurs: most kernels of a batch share theirs.
    """
    codes = np.zeros(batch.rows.num_rows, np.int64)
    room, used = 1, []
    for name in names:
        coded = batch.column(name).dictionary_encode(null_encoding="encode")
        if len(coded.dictionary) == 1 and _is_empty(coded.dictionary[0].as_py(), keep_zero=keep_zero):
            continue
        used.append(name)
        if room * len(coded.dictionary) > _OUT_OF_RANGE:
            codes = np.unique(codes, return_inverse=True)[1]
            room = int(codes.max()) + 1
        codes = codes * len(coded.dictionary) + coded.indices.to_numpy(zero_copy_only=False)
        room *= len(coded.dictionary)
    if not used:
        return pa.nulls(batch.rows.num_rows, pa.string())
    if room == 1:
        places, inverse = np.zeros(1, np.int64), codes
    else:
        _, places, inverse = np.unique(codes, return_index=True, return_inverse=True)
    distinct = batch.rows.select(used).take(pa.array(places)).to_pylist()
    texts = pa.array([_json_object(row, keep_zero=keep_zero) for row in distinct], pa.string())
    return build_dictionary(pa.array(inverse), texts) if len(texts) < _MAX_DICTIONARY else texts.take(pa.array(inverse))


def _json_object(row: dict[str, Any], *, keep_zero: bool) -> str | None:
    left = {name: value for name, value in row.items() if not _is_empty(value, keep_zero=keep_zero)}
    return json.dumps(left, ensure_ascii=False, separators=(",", ":")) if left else None


def _is_empty(value: object, *, keep_zero: bool) -> bool:
    absent = value is None or (isinstance(value, float) and not math.isfinite(value))
    return absent or (not keep_zero and value in (0, "", "[]"))


def _null_where_absent(values: Array, absent: Array) -> Array:
    """The values, but NULL where they say that there is none."""
    found = pc.is_in(values, value_set=absent)
    return pc.if_else(found, None, values) if found.true_count else values


def _null_out_of_range(times: Array, name: str, diagnostics: DiagnosticCounts) -> Array:
    """Times within 146 years of 0; further ones are NULL, and counted: differences would leave 64 bits."""
    if times.null_count == len(times):
        return times
    bounds = pc.min_max(times).as_py()
    if bounds["min"] > -_OUT_OF_RANGE and bounds["max"] < _OUT_OF_RANGE - (1 << 61):
        return times
    fits = pc.and_(pc.greater(times, -_OUT_OF_RANGE), pc.less(times, _OUT_OF_RANGE - (1 << 61)))
    beyond = times.filter(pc.invert(pc.fill_null(fits, True)))  # noqa: FBT003
    diagnostics.note("time_unreadable", f"{name} {beyond[0]}", count=len(beyond))
    return pc.if_else(fits, times, None)
