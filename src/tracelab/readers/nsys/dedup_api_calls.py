"""Calls of the CUDA API that an export has twice: as CUPTI recorded them, and around that as an event of nsys' own."""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from tracelab.readers.diagnostics import DiagnosticCounts
from tracelab.readers.nsys.column_builders import Batch
from tracelab.readers.nsys.enums import Enums
from tracelab.readers.nsys.export import Array, Columns, Export

TABLES = ("CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_RUNTIME_V2")
APIS = {"CUDA_RUNTIME": "runtime", "CUDA_DRIVER": "driver"}
"""The classes of events that CUPTI records."""

CallKey = tuple[int, int]
"""Thread and correlation."""

_KEY = ("globalTid", "correlationId")
_READ: Columns = dict.fromkeys((*_KEY, "eventClass", "start", "end"), "int")


def find_repeated_calls(export: Export, enums: Enums) -> frozenset[CallKey]:
    """The calls that stand twice (cudaMalloc of class 67 around cudaMalloc_v3020 of class 0, same correlation: 2022).

    A thread makes one call of a correlation, so a call of another class that holds CUPTI's is that call.
    """
    own = cupti_class_codes(enums)
    around: dict[CallKey, tuple[int, int]] = {}
    found: set[CallKey] = set()
    for table in TABLES:
        if not set(_READ) <= set(export.tables.get(table, {})) or not _has_other_classes(export, table, own):
            continue
        for rows in _iter_rows(export, table, _READ):
            for row in rows.filter(pc.invert(pc.is_in(rows.column("eventClass"), own))).to_pylist():
                if row["correlationId"] and None not in row.values():
                    around[row["globalTid"], row["correlationId"]] = (row["start"], row["end"])
        for rows in _iter_rows(export, table, _READ):
            for row in rows.filter(pc.is_in(rows.column("eventClass"), own)).to_pylist():
                key = row["globalTid"], row["correlationId"]
                start, end = around.get(key, (1, 0))
                if start < end and None not in row.values() and start <= row["start"] and row["end"] <= end:
                    found.add(key)
    return frozenset(found)


def cupti_class_codes(enums: Enums) -> Array:
    """The numbers of CUPTI's classes."""
    names = enums["ENUM_NSYS_EVENT_CLASS"]
    return pa.array([code for code, name in names.items() if name in APIS], pa.int64())


def mask_repeated_calls(batch: Batch) -> Array:
    """Which rows are a call again that the export has as CUPTI recorded it."""
    twice = batch.session.calls_twice
    keys = zip(*(batch.column(name).to_pylist() for name in _KEY), strict=True)
    others = pc.invert(pc.is_in(batch.column("eventClass"), cupti_class_codes(batch.session.enums)))
    return pc.and_(others, pa.array([key in twice for key in keys], pa.bool_()))


def _has_other_classes(export: Export, table: str, own: Array) -> bool:
    """Whether some events are of another class; most exports have none."""
    rows = _iter_rows(export, table, {"eventClass": "int"})
    return any(not pc.all(pc.is_in(part.column("eventClass"), own)).as_py() for part in rows)


def _iter_rows(export: Export, table: str, columns: Columns) -> Iterator[pa.Table]:
    """Rows that are read again as events, and what is wrong with them is noted then."""
    for part in export.parts(table):
        yield from export.batches(part, columns, DiagnosticCounts(), "rows_lost")
