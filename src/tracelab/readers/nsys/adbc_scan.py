"""Rows of an SQLite file through ADBC, as Arrow: fast, and only while every cell is of its column's type."""

import contextlib
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path

import adbc_driver_manager
import pyarrow as pa
import pyarrow.compute as pc
from adbc_driver_sqlite import dbapi

from tracelab.readers.diagnostics import DiagnosticCounts
from tracelab.readers.nsys.coerce import decode_text
from tracelab.readers.nsys.connection import PRAGMA_READ_TRUNCATED, connect, range_query, read_only_uri
from tracelab.readers.nsys.export import ARROW, Array, Columns, Kind, Part
from tracelab.readers.nsys.rowid_order import quote_name

BATCH_ROWS = 1 << 16
_SAMPLES = 64
_SAMPLED_ROWS = 32
"""Rows of a part for each sample, below which comparing is not worth it."""

SCAN_ERRORS = (adbc_driver_manager.Error, pa.ArrowException, OSError)
PlainValue = int | str | None


class ColumnTypeError(Exception):
    """A column came in a type that is not its kind's."""


def scan_batches(
    path: Path, part: Part, columns: Columns, diagnostics: DiagnosticCounts, same: Mapping[str, PlainValue]
) -> Iterator[tuple[pa.Table, Array]]:
    """Batches through ADBC, each with its row ids. Fails where a cell does not fit the types of the first ones.

    Columns that should be the `same` in all rows are only compared: that costs a third of reading them. A batch in
    which one is not is read again.
    """
    differing = {name: kind for name, kind in columns.items() if name not in same}
    selected = ", ".join(_column_sql(name, kind) for name, kind in differing.items())
    alike = " + ".join(f"({quote_name(name)} is {_sql_literal(value)})" for name, value in same.items())
    query = range_query(f"{selected}, {alike or 0}, rowid", part)
    first = part.first
    with dbapi.connect(read_only_uri(path)) as con, con.cursor() as cursor:
        cursor.execute(PRAGMA_READ_TRUNCATED)
        cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": str(BATCH_ROWS)})
        cursor.execute(query)
        with cursor.fetch_record_batch() as reader:
            for batch in reader:
                if not batch.num_rows:
                    continue
                ids = batch.column(batch.num_columns - 1)
                last = ids[-1].as_py()
                if pc.min(batch.column(batch.num_columns - 2)).as_py() == len(same):
                    rows = _convert_batch(batch, differing, diagnostics)
                    yield _add_constants(rows, columns, same), ids
                else:
                    yield from scan_batches(path, Part(part.table, first, last, 0), columns, diagnostics, {})
                first = last + 1


def find_constant_columns(path: Path, part: Part, names: Columns) -> dict[str, PlainValue]:
    """The columns that have one value in some rows, far from each other: likely in all of the part."""
    if not names or part.rows < _SAMPLED_ROWS * _SAMPLES:
        return {}
    at = ", ".join(str(part.first + (part.last - part.first) * place // _SAMPLES) for place in range(_SAMPLES + 1))
    query = f"select {', '.join(map(quote_name, names))} from {quote_name(part.table)} where rowid in ({at})"
    try:
        with contextlib.closing(connect(path)) as con:
            values = list(zip(*con.execute(query), strict=True))
    except sqlite3.Error:
        return {}
    found = zip(names, values, strict=bool(values))
    return {
        name: _to_plain(cells[0]) for name, cells in found if len(set(cells)) == 1 and _is_plain(cells[0], names[name])
    }


def _is_plain(cell: object, kind: Kind) -> bool:
    """Whether a cell is of its column's kind, and can stand in a query as it is."""
    if isinstance(cell, bytes):
        return kind == "text" and (cell in (b"", b"[]") or cell.isalnum())
    return cell is None or (kind == "int" and isinstance(cell, int))


def _to_plain(cell: int | bytes | None) -> PlainValue:
    return cell.decode() if isinstance(cell, bytes) else cell


def _add_constants(rows: pa.Table, columns: Columns, same: Mapping[str, PlainValue]) -> pa.Table:
    """The rows with those columns that are the same in all of them, in order."""
    scalars = {name: pa.scalar(value, ARROW[columns[name]]) for name, value in same.items()}
    return pa.table(
        {name: pa.repeat(scalars[name], rows.num_rows) if name in scalars else rows.column(name) for name in columns}
    )


def _sql_literal(value: PlainValue) -> str:
    return f"'{value}'" if isinstance(value, str) else "null" if value is None else str(value)


def _column_sql(name: str, kind: Kind) -> str:
    """A column as ADBC reads it exactly: it takes the types of the first rows for those of all.

    So text comes as bytes that are never NULL, beside whether they should be.
    """
    cell = quote_name(name)
    return f"coalesce(cast({cell} as blob), x''), {cell} is null" if kind == "text" else cell


def _convert_batch(batch: pa.RecordBatch, columns: Columns, diagnostics: DiagnosticCounts) -> pa.Table:
    arrays, at = {}, 0
    for name, kind in columns.items():
        values = batch.column(at)
        if kind == "text":
            if values.type != pa.binary():
                raise ColumnTypeError
            absent = batch.column(at + 1).cast(pa.bool_())
            arrays[name] = decode_text(pc.if_else(absent, None, values), diagnostics)
            at += 2
            continue
        if values.type != ARROW[kind]:
            if kind == "int" or values.type != pa.int64():
                raise ColumnTypeError
            values = values.cast(pa.float64())
        arrays[name] = values
        at += 1
    return pa.table(arrays)
