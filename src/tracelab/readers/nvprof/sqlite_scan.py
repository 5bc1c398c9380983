"""An SQLite file that nvprof wrote, table by table, in batches of bounded size; of a damaged file what can be read."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import adbc_driver_manager
import adbc_driver_sqlite.dbapi as adbc
import pyarrow as pa

MAGIC = b"SQLite format 3\0"
BATCH_ROWS = 65_536
KINDS: dict[str, pa.DataType] = {"int": pa.int64(), "double": pa.float64(), "text": pa.string()}
_FITS: dict[str, Callable[[object], bool]] = {
    "int": lambda value: isinstance(value, int),
    "double": lambda value: isinstance(value, float | int),
    "text": lambda value: isinstance(value, str),
}
_SCAN_ERRORS = (adbc_driver_manager.Error, pa.ArrowException, OSError)


@dataclass(frozen=True)
class SelectField:
    """One column of an answer: its SQL over the table `t`, and what kind of values it should have."""

    name: str
    sql: str
    kind: str = "int"


@dataclass(frozen=True)
class TableQuery:
    """What to read of a table; its rows come by rowid."""

    table: str
    fields: tuple[SelectField, ...]
    joined: str = ""
    where: str = "true"

    def sql(self, after: int | None = None, before: int | None = None) -> str:
        """The whole select, upwards from a row or downwards to it, with the row's id as the last column."""
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
    """What a read could not give: rows, values of the wrong kind, and whether the file breaks."""

    rows: int = 0
    values: int = 0
    sample: str = ""
    broken: str = ""


def open_database(path: Path) -> sqlite3.Connection:
    """The file, read-only, as it stands; texts that are no UTF-8 with their bad characters replaced."""
    con = sqlite3.connect(_uri(path), uri=True)
    con.execute("pragma writable_schema = on")  # the only way to have SQLite open a file that lacks its last pages
    con.text_factory = lambda raw: raw.decode("utf-8", "replace")
    return con


def is_truncated(path: Path) -> bool:
    """Whether the file is shorter than its own header says."""
    with path.open("rb") as file:
        head = file.read(100)
    page_bytes = int.from_bytes(head[16:18], "big")
    return path.stat().st_size < int.from_bytes(head[28:32], "big") * (65_536 if page_bytes == 1 else page_bytes)


def list_columns(con: sqlite3.Connection) -> dict[str, dict[str, str]]:
    """Every table's columns with their declared types. Raises sqlite3.DatabaseError."""
    tables = [name for (name,) in con.execute("select name from sqlite_master where type = 'table' order by name")]
    return {
        table: {name: kind.upper() for _, name, kind, *_ in con.execute(f"pragma table_info({quote_name(table)})")}
        for table in tables
    }


def estimate_rows(con: sqlite3.Connection, table: str) -> int:
    """About how many rows a table has, without reading it."""
    try:
        return int(con.execute(f"select coalesce(max(rowid), 0) from {quote_name(table)}").fetchone()[0])
    except sqlite3.DatabaseError:
        return 0


def quote_name(name: str) -> str:
    """A name as SQL takes it, whatever stands in it."""
    return '"' + name.replace('"', '""') + '"'


def scan_batches(path: Path, question: TableQuery, lost: ReadLosses) -> Iterator[pa.Table]:
    """The rows asked for, by ADBC as long as that goes, else one by one.

    ADBC takes the kinds of values from a file's first rows and fails where others follow; and where the file breaks, it
    takes the good rows of the batch with it.
    """
    last: int | None = None
    try:
        for table in _scan_adbc(path, question):
            last = table.column("rowid")[-1].as_py()
            yield table.drop_columns("rowid")
    except _SCAN_ERRORS:
        yield from _scan_rows(path, question, lost, last)


def _uri(path: Path) -> str:
    return path.absolute().as_uri() + "?mode=ro&immutable=1"


def _scan_adbc(path: Path, question: TableQuery) -> Iterator[pa.Table]:
    expected: list[tuple[str, pa.DataType]] = [(field.name, KINDS[field.kind]) for field in question.fields] + [
        ("rowid", pa.int64())
    ]
    with adbc.connect(_uri(path)) as con, con.cursor() as cursor:
        cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": str(BATCH_ROWS)})
        cursor.execute(question.sql())
        with cursor.fetch_record_batch() as reader:
            for batch in reader:
                if not batch.num_rows:
                    continue
                for name, kind in expected:
                    column = batch.column(name)
                    if column.type != kind and column.null_count < len(column):
                        raise pa.ArrowInvalid(f"{name} is {column.type}")
                    if pa.types.is_string(column.type):
                        column.validate(full=True)  # ADBC takes SQLite's word for it that texts are UTF-8
                yield pa.table({name: batch.column(name).cast(kind) for name, kind in expected})


def _scan_rows(path: Path, question: TableQuery, lost: ReadLosses, after: int | None) -> Iterator[pa.Table]:
    """Rows behind `after`; where the file breaks, those behind the break from the end backwards."""
    last = after
    try:
        for rows in _iter_chunks(path, question.sql(after=after)):
            last = rows[-1][-1]
            yield _build_checked_table(question, rows, lost)
    except _PartialChunkError as half:
        if half.rows:
            last = half.rows[-1][-1]
            yield _build_checked_table(question, half.rows, lost)
        lost.broken = str(half)
    if not lost.broken:
        return
    try:
        for rows in _iter_chunks(path, question.sql(after=last, before=1 << 62)):
            yield _build_checked_table(question, rows, lost)
    except _PartialChunkError as half:
        if half.rows:
            yield _build_checked_table(question, half.rows, lost)


class _PartialChunkError(Exception):
    """The file broke within a chunk; the rows before the break."""

    def __init__(self, rows: list[tuple[Any, ...]], problem: str) -> None:
        super().__init__(problem)
        self.rows = rows


def _iter_chunks(path: Path, sql: str) -> Iterator[list[tuple[Any, ...]]]:
    rows: list[tuple[Any, ...]] = []
    with closing(open_database(path)) as con:
        try:
            for row in con.execute(sql):
                rows.append(row)
                if len(rows) == BATCH_ROWS:
                    yield rows
                    rows = []
        except sqlite3.DatabaseError as error:
            raise _PartialChunkError(rows, str(error)) from error
    if rows:
        yield rows


def _build_checked_table(question: TableQuery, rows: list[tuple[Any, ...]], lost: ReadLosses) -> pa.Table:
    """The rows as a table; a value of another kind than its column's is NULL, and counted."""
    columns = []
    whole = [row for row in rows if any(value not in (None, "") for value in row[:-1])]
    lost.rows += len(rows) - len(whole)  # on a page that was cut SQLite sees rows of nothing
    for field, values in zip(question.fields, zip(*whole, strict=True), strict=False):  # behind the fields: the rowid
        fits = _FITS[field.kind]
        kept = [value if value is None or fits(value) else None for value in values]
        if bad := [value for value, good in zip(values, kept, strict=True) if value is not None and good is None]:
            lost.values += len(bad)
            lost.sample = lost.sample or f"{field.name} {bad[0]!r}"
        columns.append(pa.array(kept, KINDS[field.kind]))
    schema = pa.schema([(field.name, KINDS[field.kind]) for field in question.fields])
    return pa.table(columns, schema=schema) if columns else schema.empty_table()
