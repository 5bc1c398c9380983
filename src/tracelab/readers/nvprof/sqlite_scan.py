"""Read the tables of an nvprof database in batches of bounded size; from a damaged file, all that is readable."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from tracelab.readers.diagnostics import describe_value

MAGIC = b"SQLite format 3\0"
BATCH_ROWS = 65_536
_MOST_TABLES = 500
KINDS: dict[str, pa.DataType] = {"int": pa.int64(), "double": pa.float64(), "text": pa.string()}
_FITS: dict[str, Callable[[object], bool]] = {
    "int": lambda value: isinstance(value, int),
    "double": lambda value: isinstance(value, float | int),
    "text": lambda value: isinstance(value, str),
}


@dataclass(frozen=True)
class SelectField:
    """One column of a query: its SQL over the table `t`, and the kind of its values."""

    name: str
    sql: str
    kind: str = "int"


@dataclass(frozen=True)
class TableQuery:
    """Query of one table, in order of rowid."""

    table: str
    fields: tuple[SelectField, ...]
    joined: str = ""
    where: str = "true"

    def sql(self, after: int | None = None, before: int | None = None) -> str:
        """Return the select, upward from a row or downward to it, with the rowid as the last column."""
        columns = ", ".join(f'{field.sql} as "{field.name}"' for field in self.fields)
        limits = "" if after is None else f" and t.rowid > {after}"
        limits += "" if before is None else f" and t.rowid < {before}"
        order = "desc" if before is not None else "asc"
        return (
            f'select {columns}, t.rowid as "rowid" from "{self.table}" as t {self.joined} '
            f"where ({self.where}){limits} order by t.rowid {order}"
        )


@dataclass
class ReadLosses:
    """Losses of a read: rows, values of the wrong kind, and the error of a damaged file."""

    rows: int = 0
    values: int = 0
    sample: str = ""
    broken: str = ""


def open_database(path: Path) -> sqlite3.Connection:
    """Open the file read-only; invalid UTF-8 in texts is replaced."""
    con = sqlite3.connect(_uri(path), uri=True)
    con.execute("pragma writable_schema = on")  # without it, SQLite refuses a file that lacks its last pages
    con.text_factory = lambda raw: raw.decode("utf-8", "replace")
    return con


def is_truncated(path: Path) -> bool:
    """Return whether the file is shorter than its header declares."""
    with path.open("rb") as file:
        head = file.read(100)
    page_bytes = int.from_bytes(head[16:18], "big")
    return path.stat().st_size < int.from_bytes(head[28:32], "big") * (65_536 if page_bytes == 1 else page_bytes)


def list_columns(con: sqlite3.Connection) -> dict[str, dict[str, str]]:
    """Return the columns of every table with their declared types. Raises sqlite3.DatabaseError.

    None of a file with more tables than nvprof writes: each query parses the declarations of all.
    """
    tables = [name for (name,) in con.execute("select name from sqlite_master where type = 'table' order by name")]
    if len(tables) > _MOST_TABLES:
        return {}
    return {
        table: {name: kind.upper() for _, name, kind, *_ in con.execute(f"pragma table_info({quote_name(table)})")}
        for table in tables
    }


def estimate_rows(con: sqlite3.Connection, table: str) -> int:
    """Estimate the number of rows of a table without reading it."""
    try:
        return int(con.execute(f"select coalesce(max(rowid), 0) from {quote_name(table)}").fetchone()[0])
    except sqlite3.DatabaseError:
        return 0


def quote_name(name: str) -> str:
    """Quote a name for SQL; it may contain any character."""
    return '"' + name.replace('"', '""') + '"'


def scan_batches(path: Path, query: TableQuery, losses: ReadLosses, batch_rows: int = BATCH_ROWS) -> Iterator[pa.Table]:
    """Yield the rows of a query, through ADBC as long as it works, else one by one.

    ADBC takes the kinds of values from a file's first rows and fails if others follow; at damage, it drops the good
    rows of the batch.
    """
    last: int | None = None
    try:
        for table in _scan_adbc(path, query, batch_rows):
            last = table.column("rowid")[-1].as_py()
            yield table.drop_columns("rowid")
    except _scan_errors():
        yield from _scan_rows(path, query, losses, last, batch_rows)


def _uri(path: Path) -> str:
    return path.absolute().as_uri() + "?mode=ro&immutable=1"


def _scan_errors() -> tuple[type[Exception], ...]:
    from adbc_driver_manager import Error

    return (Error, pa.ArrowException, OSError)


def _scan_adbc(path: Path, query: TableQuery, batch_rows: int) -> Iterator[pa.Table]:
    expected: list[tuple[str, pa.DataType]] = [(field.name, KINDS[field.kind]) for field in query.fields] + [
        ("rowid", pa.int64())
    ]
    from adbc_driver_sqlite import dbapi  # takes longer to import than a small file takes to read

    with dbapi.connect(_uri(path)) as con, con.cursor() as cursor:
        cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": str(batch_rows)})
        cursor.execute(query.sql())
        with cursor.fetch_record_batch() as reader:
            for batch in reader:
                if not batch.num_rows:
                    continue
                for name, kind in expected:
                    column = batch.column(name)
                    if column.type != kind and column.null_count < len(column):
                        raise pa.ArrowInvalid(f"{name} is {column.type}")
                    if pa.types.is_string(column.type):
                        column.validate(full=True)  # ADBC does not check that texts are UTF-8
                yield pa.table({name: batch.column(name).cast(kind) for name, kind in expected})


def _scan_rows(
    path: Path, query: TableQuery, losses: ReadLosses, after: int | None, batch_rows: int
) -> Iterator[pa.Table]:
    """Yield the rows after `after`; at damage, also those after it, from the end backward."""
    last = after
    try:
        for rows in _iter_chunks(path, query.sql(after=after), batch_rows):
            last = rows[-1][-1]
            yield _build_checked_table(query, rows, losses)
    except _PartialChunkError as partial:
        if partial.rows:
            last = partial.rows[-1][-1]
            yield _build_checked_table(query, partial.rows, losses)
        losses.broken = str(partial)
    if not losses.broken:
        return
    try:
        for rows in _iter_chunks(path, query.sql(after=last, before=1 << 62), batch_rows):
            yield _build_checked_table(query, rows, losses)
    except _PartialChunkError as partial:
        if partial.rows:
            yield _build_checked_table(query, partial.rows, losses)


class _PartialChunkError(Exception):
    """The file is damaged within a chunk; `rows` are those before the damage."""

    def __init__(self, rows: list[tuple[Any, ...]], error: str) -> None:
        super().__init__(error)
        self.rows = rows


def _iter_chunks(path: Path, sql: str, batch_rows: int) -> Iterator[list[tuple[Any, ...]]]:
    rows: list[tuple[Any, ...]] = []
    with closing(open_database(path)) as con:
        try:
            for row in con.execute(sql):
                rows.append(row)
                if len(rows) == batch_rows:
                    yield rows
                    rows = []
        except sqlite3.DatabaseError as error:
            raise _PartialChunkError(rows, str(error)) from error
    if rows:
        yield rows


def _build_checked_table(query: TableQuery, rows: list[tuple[Any, ...]], losses: ReadLosses) -> pa.Table:
    """Build a table; a value of another kind than its column becomes NULL and is counted."""
    columns = []
    rows_with_values = [row for row in rows if any(value not in (None, "") for value in row[:-1])]
    losses.rows += len(rows) - len(rows_with_values)  # on a truncated page SQLite reads empty rows
    # after the fields: the rowid
    for field, values in zip(query.fields, zip(*rows_with_values, strict=True), strict=False):
        fits = _FITS[field.kind]
        kept = [value if value is None or fits(value) else None for value in values]
        if unfit := [
            value for value, kept_value in zip(values, kept, strict=True) if value is not None and kept_value is None
        ]:
            losses.values += len(unfit)
            losses.sample = losses.sample or f"{field.name} {describe_value(unfit[0])}"
        columns.append(pa.array(kept, KINDS[field.kind]))
    schema = pa.schema([(field.name, KINDS[field.kind]) for field in query.fields])
    return pa.table(columns, schema=schema) if columns else schema.empty_table()
