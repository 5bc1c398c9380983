"""Read rows of an SQLite file through ADBC as Arrow: fast, but only if every cell has the type of its column."""

import contextlib
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from tracelab.readers.diagnostics import DiagnosticCounts
from tracelab.readers.nsys.coerce import LONGEST_TEXT, decode_text
from tracelab.readers.nsys.connection import PRAGMA_READ_TRUNCATED, connect, range_query, read_only_uri
from tracelab.readers.nsys.export import ARROW, Array, Columns, Kind, Part
from tracelab.readers.nsys.rowid_order import quote_name
from tracelab.readers.nsys.salvage import LAST

BATCH_ROWS = 1 << 16
_BATCH_BYTES = 128 << 20
_SAMPLES = 64
_SAMPLED_ROWS = 32
"""Fewest rows of a part per sample; comparing is not worth it below."""

PlainValue = int | str | None


class ColumnTypeError(Exception):
    """A column has another type than its kind."""


def scan_errors() -> tuple[type[Exception], ...]:
    """Return what `scan_batches` raises where a cell does not fit, or the file is damaged."""
    from adbc_driver_manager import Error

    return (Error, pa.ArrowException, OSError, ColumnTypeError)


def scan_batches(
    path: Path, part: Part, columns: Columns, diagnostics: DiagnosticCounts, constants: Mapping[str, PlainValue]
) -> Iterator[tuple[pa.Table, Array]]:
    """Yield batches and their row ids through ADBC; fail if a cell does not fit the types of the first rows.

    Columns in `constants` are only compared, which costs a third of reading them. A batch in which one differs is read
    again in full.
    """
    read_columns = {name: kind for name, kind in columns.items() if name not in constants}
    selected = ", ".join(_column_sql(name, kind) for name, kind in read_columns.items())
    matches = " + ".join(f"({quote_name(name)} is {_sql_literal(value)})" for name, value in constants.items())
    query = range_query(f"{selected}, {matches or 0}, rowid", part)
    first = part.first
    from adbc_driver_sqlite import dbapi  # takes longer to import than a small file takes to read

    with dbapi.connect(read_only_uri(path)) as con, con.cursor() as cursor:
        cursor.execute(PRAGMA_READ_TRUNCATED)
        cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": str(_count_batch_rows(path, part))})
        cursor.execute(query)
        with cursor.fetch_record_batch() as reader:
            for batch in reader:
                if not batch.num_rows:
                    continue
                ids = batch.column(batch.num_columns - 1)
                last = ids[-1].as_py()
                if pc.min(batch.column(batch.num_columns - 2)).as_py() == len(constants):
                    rows = _convert_batch(batch, read_columns, diagnostics)
                    yield _add_constants(rows, columns, constants), ids
                else:
                    yield from scan_batches(path, Part(part.table, first, last, 0), columns, diagnostics, {})
                first = last + 1


def _count_batch_rows(path: Path, part: Part) -> int:
    """Return how many rows of a part, of the mean size that the file permits, fit into a batch's memory."""
    rows = max(part.rows, part.last - part.first + 1 if part.last < LAST else 0, 1)
    return max(1, min(BATCH_ROWS, _BATCH_BYTES * rows // max(path.stat().st_size, 1)))


def find_constant_columns(path: Path, part: Part, names: Columns) -> dict[str, PlainValue]:
    """Return the columns with a single value in sampled rows of the whole part, and that value."""
    if not names or part.rows < _SAMPLED_ROWS * _SAMPLES:
        return {}
    at = ", ".join(str(part.first + (part.last - part.first) * place // _SAMPLES) for place in range(_SAMPLES + 1))
    query = f"select {', '.join(map(quote_name, names))} from {quote_name(part.table)} where rowid in ({at})"
    try:
        with contextlib.closing(connect(path)) as con:
            values = list(zip(*con.execute(query), strict=True))
    except sqlite3.Error:
        return {}
    columns = zip(names, values, strict=bool(values))
    return {
        name: _to_plain(cells[0])
        for name, cells in columns
        if len(set(cells)) == 1 and _is_plain(cells[0], names[name])
    }


def _is_plain(cell: object, kind: Kind) -> bool:
    """Return whether a cell has its column's kind and is safe as an SQL literal."""
    if isinstance(cell, bytes):
        return kind == "text" and (cell in (b"", b"[]") or cell.isalnum())
    return cell is None or (kind == "int" and isinstance(cell, int))


def _to_plain(cell: int | bytes | None) -> PlainValue:
    return cell.decode() if isinstance(cell, bytes) else cell


def _add_constants(rows: pa.Table, columns: Columns, constants: Mapping[str, PlainValue]) -> pa.Table:
    """Add the constant columns to the rows, in the order of `columns`."""
    scalars = {name: pa.scalar(value, ARROW[columns[name]]) for name, value in constants.items()}
    return pa.table(
        {name: pa.repeat(scalars[name], rows.num_rows) if name in scalars else rows.column(name) for name in columns}
    )


def _sql_literal(value: PlainValue) -> str:
    return f"'{value}'" if isinstance(value, str) else "null" if value is None else str(value)


def _column_sql(name: str, kind: Kind) -> str:
    """Return the SQL of a column that ADBC reads exactly: it takes the types of the first rows for all rows.

    Text therefore comes as bytes that are never NULL, next to a flag for NULL.
    """
    cell = quote_name(name)
    text = f"coalesce(substr(cast({cell} as blob), 1, {LONGEST_TEXT + 1}), x'')"
    return f"{text}, {cell} is null" if kind == "text" else cell


def _convert_batch(batch: pa.RecordBatch, columns: Columns, diagnostics: DiagnosticCounts) -> pa.Table:
    arrays, at = {}, 0
    for name, kind in columns.items():
        values = batch.column(at)
        if kind == "text":
            if values.type != pa.binary():
                raise ColumnTypeError
            is_null = batch.column(at + 1).cast(pa.bool_())
            arrays[name] = decode_text(pc.if_else(is_null, None, values), name, diagnostics)
            at += 2
            continue
        if values.type != ARROW[kind]:
            if kind == "int" or values.type != pa.int64():
                raise ColumnTypeError
            values = values.cast(pa.float64())
        arrays[name] = values
        at += 1
    return pa.table(arrays)
