"""Find CUDA API calls that an export has twice: as recorded by CUPTI, and enclosed in an event of nsys itself."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from tracelab.readers.diagnostics import DiagnosticCounts
from tracelab.readers.nsys.column_builders import Batch
from tracelab.readers.nsys.enums import Enums
from tracelab.readers.nsys.export import Array, Columns, Export

if TYPE_CHECKING:
    import polars

TABLES = ("CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_RUNTIME_V2")
APIS = {"CUDA_RUNTIME": "runtime", "CUDA_DRIVER": "driver"}
"""Event classes that CUPTI records."""

CallKey = tuple[int, int]
"""Thread and correlation."""

_KEY = ("globalTid", "correlationId")
_READ: Columns = dict.fromkeys((*_KEY, "eventClass", "start", "end"), "int")


def find_repeated_calls(export: Export, enums: Enums) -> frozenset[CallKey]:
    """Return the calls that the export has twice (2022: cudaMalloc of class 67 around cudaMalloc_v3020 of class 0).

    A thread makes one call per correlation, so a call of another class that encloses CUPTI's is the same call.
    """
    cupti_classes = cupti_class_codes(enums)
    complete = [table for table in TABLES if set(_READ) <= set(export.tables.get(table, {}))]
    tables = [table for table in complete if _has_other_classes(export, table, cupti_classes)]
    if not tables:  # as in most exports
        return frozenset()
    import polars

    enclosing: list[polars.DataFrame] = []
    repeated: set[CallKey] = set()
    for table in tables:
        enclosing += [other for _, other in _split_calls(export, table, cupti_classes)]
        if not enclosing:  # damage between the two reads
            continue
        outer = polars.concat(enclosing).unique(_KEY, keep="last", maintain_order=True)
        for own, _ in _split_calls(export, table, cupti_classes):
            pairs = own.join(outer, on=_KEY, suffix="_outer")
            start, end, start_outer, end_outer = map(polars.col, ("start", "end", "start_outer", "end_outer"))
            inside = pairs.filter(start_outer < end_outer, start_outer <= start, end <= end_outer)
            repeated.update(inside.select(_KEY).rows())
    return frozenset(repeated)


def _split_calls(
    export: Export, table: str, cupti_classes: Array
) -> "Iterator[tuple[polars.DataFrame, polars.DataFrame]]":
    """Yield batches of complete calls, CUPTI's and those of other classes that have a correlation."""
    import polars

    for rows in _iter_rows(export, table, _READ):
        calls = polars.DataFrame(rows).drop_nulls()
        is_own = polars.col("eventClass").is_in(cupti_classes.to_pylist())
        yield calls.filter(is_own), calls.filter(~is_own, polars.col("correlationId") != 0)


def cupti_class_codes(enums: Enums) -> Array:
    """Return the numbers of CUPTI's classes."""
    names = enums["ENUM_NSYS_EVENT_CLASS"]
    return pa.array([code for code, name in names.items() if name in APIS], pa.int64())


def mask_repeated_calls(batch: Batch) -> Array:
    """Return a mask of the rows that repeat a call recorded by CUPTI."""
    repeated = batch.session.calls_twice
    keys = zip(*(batch.column(name).to_pylist() for name in _KEY), strict=True)
    other_class = pc.invert(pc.is_in(batch.column("eventClass"), cupti_class_codes(batch.session.enums)))
    return pc.and_(other_class, pa.array([key in repeated for key in keys], pa.bool_()))


def _has_other_classes(export: Export, table: str, cupti_classes: Array) -> bool:
    """Return whether any event has another class; most exports have none."""
    rows = _iter_rows(export, table, {"eventClass": "int"})
    return any(not pc.all(pc.is_in(part.column("eventClass"), cupti_classes)).as_py() for part in rows)


def _iter_rows(export: Export, table: str, columns: Columns) -> Iterator[pa.Table]:
    """Yield rows that are read again as events, which is when their problems are counted."""
    for part in export.parts(table):
        yield from export.batches(part, columns, DiagnosticCounts(), "rows_lost")
