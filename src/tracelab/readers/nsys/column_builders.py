"""Build canonical columns from a batch of rows of an export's table."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tracelab.readers.diagnostics import DiagnosticCounts
from tracelab.readers.nsys.coerce import to_int32
from tracelab.readers.nsys.combinations import number_combinations
from tracelab.readers.nsys.enums import Enums
from tracelab.readers.nsys.export import ARROW, Array, Kind
from tracelab.readers.nsys.string_table import StringTable, build_dictionary, map_distinct_coded

NO_ID = pa.array([-1, (1 << 32) - 1])
"""Values of an id field without an id: -1, signed or as unsigned 32 bits."""

_NO_LINK = pa.array([0, -1, (1 << 32) - 1])
_OUT_OF_RANGE = 1 << 62
_MAX_DICTIONARY = 4_096
"""Most distinct texts of a batch for which a dictionary pays off."""


@dataclass(frozen=True)
class Session:
    """Data of the whole export that every batch needs."""

    strings: StringTable
    enums: Enums
    shift_ns: int = 0
    """Offset of all times: the start of the session, in Unix ns."""
    dur_ns: int | None = None
    """Duration of the session."""
    domains: Mapping[tuple[int | None, int], str] = field(default_factory=dict)
    """NVTX domains by process and id."""
    categories: Mapping[tuple[int | None, int, int], str] = field(default_factory=dict)
    """NVTX categories by process, domain and id."""
    records: Mapping[tuple[int, int, int], tuple[int, int]] = field(default_factory=dict)
    """Stream and correlation of event records by process, event and record."""
    calls_twice: frozenset[tuple[int, int]] = frozenset()
    """Thread and correlation of the calls that the export has twice."""


@dataclass(frozen=True)
class Batch:
    """Rows of one table of the export."""

    table: str
    rows: pa.Table
    session: Session
    diagnostics: DiagnosticCounts

    def column(self, name: str, kind: Kind = "int") -> Array:
        """Return a column; all NULL if the table lacks it."""
        if name in self.rows.column_names:
            return self.rows.column(name).combine_chunks()
        return pa.nulls(self.rows.num_rows, ARROW[kind])


Value = Callable[[Batch], Array]
"""Function that builds one canonical column of a batch."""


def number(name: str) -> Value:
    """Copy a number."""
    return lambda batch: batch.column(name)


def int32(name: str) -> Value:
    """Convert a number to 32 bits."""
    return lambda batch: to_int32(batch.column(name), name, batch.diagnostics)


def id_or_null(name: str) -> Value:
    """Copy an id; its markers of absence become NULL."""
    return lambda batch: _null_where_absent(batch.column(name), NO_ID)


def device(name: str) -> Value:
    """Copy the ordinal of a device."""
    return lambda batch: to_int32(_null_where_absent(batch.column(name), NO_ID), name, batch.diagnostics)


def link(name: str) -> Value:
    """Copy an id for which 0, too, means absence."""
    return lambda batch: _null_where_absent(batch.column(name), _NO_LINK)


def pid(name: str) -> Value:
    """Extract the process from a global id: bits 24 to 47."""
    return lambda batch: pc.bit_wise_and(pc.shift_right(batch.column(name), 24), (1 << 24) - 1)


def tid(name: str) -> Value:
    """Extract the thread from a global id: the lowest 24 bits."""
    return lambda batch: pc.bit_wise_and(batch.column(name), (1 << 24) - 1)


def time(name: str) -> Value:
    """Convert a time of the session to the source's clock."""

    def shift(batch: Batch) -> Array:
        return pc.add(_null_out_of_range(batch.column(name), name, batch.diagnostics), batch.session.shift_ns)

    return shift


def duration(start: str, end: str) -> Value:
    """Subtract a start from an end."""

    def subtract(batch: Batch) -> Array:
        # counted when the start becomes a column
        starts = _null_out_of_range(batch.column(start), start, DiagnosticCounts())
        return pc.subtract(_null_out_of_range(batch.column(end), end, batch.diagnostics), starts)

    return subtract


def text_of_id(*names: str, change: Callable[[str], str] | None = None) -> Value:
    """Look up the text of the first string id that is present, then apply `change`."""

    def look_up(batch: Batch) -> Array:
        present = [name for name in names if name in batch.rows.column_names]
        if not present:
            return pa.nulls(batch.rows.num_rows, pa.string())
        ids = batch.column(present[0])
        for name in present[1:]:
            if not ids.null_count:
                break
            ids = pc.coalesce(ids, batch.column(name))
        return batch.session.strings.coded_texts(ids, batch.diagnostics, change)

    return look_up


def label(name: str, table: str, change: Callable[[str | None], str | None]) -> Value:
    """Look up the label of an enum value, then apply `change`."""

    def look_up_labels(batch: Batch) -> Array:
        names = batch.session.enums[table]

        def change_distinct(numbers: Array) -> Array:
            return pa.array([change(names.get(value)) for value in numbers.to_pylist()], pa.string())

        return map_distinct_coded(batch.column(name), change_distinct)

    return look_up_labels


def constant(value: str) -> Value:
    """Repeat one text in every row."""
    return lambda batch: pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0), batch.rows.num_rows), pa.array([value]))


def count_outside_session(batch: Batch) -> int:
    """Count the rows that begin before the session or end after it."""
    if batch.session.dur_ns is None or "start" not in batch.rows.column_names:
        return 0
    starts = batch.column("start")
    ends = pc.coalesce(batch.column("end"), starts)
    out_of_range = pc.or_kleene(pc.less(starts, 0), pc.greater(ends, batch.session.dur_ns))
    return int(pc.sum(out_of_range).as_py() or 0)


def build_args(batch: Batch, names: list[str], *, keep_zero: bool) -> Array:
    """Build one JSON object per row without NULL (or 0) values; NULL if nothing is left.

    The text is made once per combination of values: most kernels of a batch share theirs.
    """
    coded = {name: batch.column(name).dictionary_encode(null_encoding="encode") for name in names}
    used = {name: column for name, column in coded.items() if not _is_constantly_empty(column, keep_zero=keep_zero)}
    if not used:
        return pa.nulls(batch.rows.num_rows, pa.string())
    places, numbers = number_combinations(list(used.values()))
    distinct = batch.rows.select(list(used)).take(places).to_pylist()
    texts = pa.array([_json_object(row, keep_zero=keep_zero) for row in distinct], pa.string())
    return build_dictionary(numbers, texts) if len(texts) < _MAX_DICTIONARY else texts.take(numbers)


def _json_object(row: dict[str, Any], *, keep_zero: bool) -> str | None:
    present = {name: value for name, value in row.items() if not _is_empty(value, keep_zero=keep_zero)}
    return json.dumps(present, ensure_ascii=False, separators=(",", ":")) if present else None


def _is_constantly_empty(column: Array, *, keep_zero: bool) -> bool:
    return len(column.dictionary) == 1 and _is_empty(column.dictionary[0].as_py(), keep_zero=keep_zero)


def _is_empty(value: object, *, keep_zero: bool) -> bool:
    absent = value is None or (isinstance(value, float) and not math.isfinite(value))
    return absent or (not keep_zero and value in (0, "", "[]"))


def _null_where_absent(values: Array, absent: Array) -> Array:
    """Replace the markers of absence by NULL."""
    is_absent = pc.is_in(values, value_set=absent)
    return pc.if_else(is_absent, None, values) if is_absent.true_count else values


def _null_out_of_range(times: Array, name: str, diagnostics: DiagnosticCounts) -> Array:
    """Keep times within 146 years of 0; others become NULL and are counted, as differences would overflow 64 bits."""
    if times.null_count == len(times):
        return times
    bounds = pc.min_max(times).as_py()
    if bounds["min"] > -_OUT_OF_RANGE and bounds["max"] < _OUT_OF_RANGE - (1 << 61):
        return times
    fits = pc.and_(pc.greater(times, -_OUT_OF_RANGE), pc.less(times, _OUT_OF_RANGE - (1 << 61)))
    out_of_range = times.filter(pc.invert(pc.fill_null(fits, True)))  # noqa: FBT003
    diagnostics.note("time_unreadable", f"{name} {out_of_range[0]}", count=len(out_of_range))
    return pc.if_else(fits, times, None)
