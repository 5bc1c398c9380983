"""An export in SQLite: read-only, in ranges of row ids, as Arrow through ADBC; row by row where that breaks."""

import contextlib
import functools
import itertools
import os
import sqlite3
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import quote

import adbc_driver_manager
import pyarrow as pa
import pyarrow.compute as pc
from adbc_driver_sqlite import dbapi

from tracelab.errors import NotProfilerDataError, SourceError
from tracelab.readers.findings import Findings
from tracelab.readers.nsys import salvage
from tracelab.readers.nsys.cells import column, text_column
from tracelab.readers.nsys.export import ARROW, Array, Columns, Kind, Part, is_export
from tracelab.readers.nsys.order import follow, is_whole, number, quoted, stands_beyond

MAGIC = b"SQLite format 3\0"
WHAT = "an Nsight Systems export (SQLite, or a folder of Parquet files)"

_CHECKED_BYTES = 64 << 20
_PART_ROWS = 1 << 17
_PARTS = 4096
_BATCH_ROWS = 1 << 16
_SAMPLES = 64
_SAMPLED_ROWS = 32
"""Rows of a part for each sample, below which comparing is not worth it."""
_READABLE_WHERE_CUT = "pragma writable_schema = 1"
"""Without it SQLite refuses every page of a file that is shorter than its header says; read-only, it writes nothing."""

_Plain = int | str | None
_Broken = (adbc_driver_manager.Error, pa.ArrowException, OSError)


@dataclass(frozen=True)
class SqliteExport:
    """The tables of one file."""

    path: Path
    tables: dict[str, Columns]
    cut: bool = False
    """Whether the file is shorter than it says."""
    sound: dict[str, bool] = field(default_factory=dict, compare=False)
    """Tables that were checked, and whether their rows stand in order."""

    def parts(self, table: str) -> list[Part]:
        """Ranges of row ids; one range of all where the table does not know its own ends."""
        with contextlib.closing(connect(self.path)) as con:
            first, last = (number(con, f"select {end}(rowid) from {quoted(table)}") for end in _ENDS)
            if first is None and self.is_sound(table):
                return []
            if first is None or last is None or stands_beyond(con, table, first, last):
                rows = number(con, f"select count(*) from {quoted(table)}")
                return [Part(table, min(1, first or 1), salvage.LAST, rows or 0, counted=rows is not None)]
        if last - first > self.path.stat().st_size:  # of numbers that far apart few can be rows
            return [Part(table, first, last, 0)]
        count = min(_PARTS, -(-(last - first + 1) // _PART_ROWS))
        edges = [first + (last - first + 1) * at // count for at in range(count + 1)]
        return [Part(table, start, end - 1, end - start) for start, end in itertools.pairwise(edges)]

    def is_sound(self, table: str) -> bool:
        """Whether SQLite finds nothing wrong with how the table's rows are stored; checked once."""
        if table not in self.sound:
            with contextlib.closing(connect(self.path)) as con:
                self.sound[table] = is_whole(con, table)
        return self.sound[table]

    def batches(
        self, part: Part, columns: Columns, findings: Findings, lost: str, steady: Collection[str] = ()
    ) -> Iterator[pa.Table]:
        """The rows of a part, fast; from where that breaks, or leaves out row ids of a damaged table, one by one."""
        start = part.first
        try:
            same = _same(self.path, part, {name: columns[name] for name in steady})
            for rows, ids in _fast(self.path, part, columns, findings, same):
                if not follow(ids, start) and not self.is_sound(part.table):
                    break
                start = ids[-1].as_py() + 1
                yield _without_zeros(rows, part.table, findings, lost) if self.cut else rows
            if start > part.last or self.is_sound(part.table):
                return
        except (*_Broken, _UnfitError):
            if start > part.last:
                return
        for rows in self._slow(_from(part, start), columns, findings, lost):
            yield _without_zeros(rows, part.table, findings, lost) if self.cut else rows

    def _slow(self, part: Part, columns: Columns, findings: Findings, lost: str) -> Iterator[pa.Table]:
        """Batches of rows read one by one, around places that cannot be read."""
        names = ", ".join(map(quoted, columns))
        with contextlib.closing(connect(self.path)) as con:
            found = self._found(con, names, part, findings, lost)
            while cells := salvage.some(found, _BATCH_ROWS):
                yield pa.table(
                    {
                        name: column(values, kind, name, findings)
                        for (name, kind), values in zip(
                            columns.items(), list(zip(*cells, strict=True))[1:], strict=True
                        )
                    }
                )

    def _found(
        self, con: sqlite3.Connection, names: str, part: Part, findings: Findings, lost: str
    ) -> Iterator[salvage.Row]:
        """Rows behind their ids: as they stand while nothing is wrong with the table, then those that can be saved."""
        start = part.first
        if self.is_sound(part.table):
            try:
                for row in con.execute(_ranged(f"rowid, {names}", part)):
                    start = row[0] + 1
                    yield row
            except sqlite3.DatabaseError:  # in a row that stands in order
                self.sound[part.table] = False
            else:
                return
        yield from salvage.rows(con, names, _from(part, start), findings, lost)


def _from(part: Part, start: int) -> Part:
    """What is left of a part from a row on."""
    return replace(part, first=start, rows=max(part.rows - (start - part.first), 0))


def _without_zeros(rows: pa.Table, table: str, findings: Findings, lost: str) -> pa.Table:
    """The rows but for those of which nothing is left: SQLite reads zeros behind the end of a file cut in a page."""
    if not all(column.null_count for column in rows.columns):
        return rows
    held = functools.reduce(pc.or_, (pc.is_valid(column) for column in rows.columns))
    findings.note(lost, table, count=rows.num_rows - (pc.sum(held).as_py() or 0))
    return rows.filter(held)


_ENDS = ("min", "max")


def seems_damaged(path: Path) -> bool:
    """Whether a file that is small enough to be checked as a whole (3 ms a MB) fails."""
    if path.stat().st_size > _CHECKED_BYTES:
        return False
    with contextlib.closing(connect(path)) as con:
        return not is_whole(con)


def _ranged(selected: str, part: Part) -> str:
    return (
        f"select {selected} from {quoted(part.table)} where rowid between {part.first} and {part.last} order by rowid"
    )


def opened(path: Path) -> SqliteExport:
    """The export in a file. Raises NotProfilerDataError where it is another tool's, SourceError where it is broken."""
    try:
        with contextlib.closing(connect(path)) as con:
            names = con.execute("select name from sqlite_master where type = 'table'").fetchall()
            tables: dict[str, Columns] = {_name(name): _columns(con, _name(name)) for (name,) in names}
    except sqlite3.DatabaseError as error:
        raise SourceError(path, f"the SQLite file is damaged ({error}); export the report again") from error
    tables = {name: columns for name, columns in tables.items() if columns}
    if not is_export(tables):
        raise NotProfilerDataError(path, f"holds no tables of Nsight Systems; expected {WHAT}")
    return SqliteExport(path, tables, _is_cut(path))


def _is_cut(path: Path) -> bool:
    """Whether the file is shorter than its header says: the page size stands at byte 16, the pages' number at 28."""
    with path.open("rb") as file:
        header = file.read(100)
    page_bytes, pages = int.from_bytes(header[16:18], "big"), int.from_bytes(header[28:32], "big")
    return path.stat().st_size < (1 << 16 if page_bytes == 1 else page_bytes) * pages


def connect(path: Path) -> sqlite3.Connection:
    """A connection that changes nothing, and gives text as bytes."""
    con = sqlite3.connect(_uri(path), uri=True, check_same_thread=False)
    con.text_factory = bytes
    con.execute(_READABLE_WHERE_CUT)
    return con


def has_unmerged_rows(path: Path) -> bool:
    """Whether a write-ahead log stands beside the file, which only a writing connection could merge."""
    log = path.with_name(path.name + "-wal")
    return log.is_file() and log.stat().st_size > 0


def _uri(path: Path) -> str:
    return f"file:{quote(os.fsencode(path.resolve()))}?mode=ro&immutable=1"


def _name(name: object) -> str:
    return name.decode(errors="surrogateescape") if isinstance(name, bytes) else str(name)


def _columns(con: sqlite3.Connection, table: str) -> dict[str, Kind]:
    """The columns of a table, by their declared types; none where it cannot be asked."""
    try:
        rows = con.execute(f"pragma table_info({quoted(table)})").fetchall()
    except sqlite3.DatabaseError:
        return {}
    return {_name(row[1]): _kind(_name(row[2])) for row in rows}


def _kind(declared: str) -> Kind:
    """SQLite's own rules of affinity, in their order."""
    upper = declared.upper()
    if "INT" in upper:
        return "int"
    if any(word in upper for word in ("CHAR", "CLOB", "TEXT", "BLOB")) or not upper:
        return "text"
    return "real"


class _UnfitError(Exception):
    """A column came in a type that is not its kind's."""


def _fast(
    path: Path, part: Part, columns: Columns, findings: Findings, same: Mapping[str, _Plain]
) -> Iterator[tuple[pa.Table, Array]]:
    """Batches through ADBC, each with its row ids. Fails where a cell does not fit the types of the first ones.

    Columns that should be the `same` in all rows are only compared: that costs a third of reading them. A batch in
    which one is not is read again.
    """
    differing = {name: kind for name, kind in columns.items() if name not in same}
    selected = ", ".join(_selected(name, kind) for name, kind in differing.items())
    alike = " + ".join(f"({quoted(name)} is {_literal(value)})" for name, value in same.items())
    query = _ranged(f"{selected}, {alike or 0}, rowid", part)
    first = part.first
    with dbapi.connect(_uri(path)) as con, con.cursor() as cursor:
        cursor.execute(_READABLE_WHERE_CUT)
        cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": str(_BATCH_ROWS)})
        cursor.execute(query)
        with cursor.fetch_record_batch() as reader:
            for batch in reader:
                if not batch.num_rows:
                    continue
                ids = batch.column(batch.num_columns - 1)
                last = ids[-1].as_py()
                if pc.min(batch.column(batch.num_columns - 2)).as_py() == len(same):
                    rows = _typed(batch, differing, findings)
                    yield _with_same(rows, columns, same), ids
                else:
                    yield from _fast(path, Part(part.table, first, last, 0), columns, findings, {})
                first = last + 1


def _same(path: Path, part: Part, names: Columns) -> dict[str, _Plain]:
    """The columns that have one value in some rows, far from each other: likely in all of the part."""
    if not names or part.rows < _SAMPLED_ROWS * _SAMPLES:
        return {}
    at = ", ".join(str(part.first + (part.last - part.first) * place // _SAMPLES) for place in range(_SAMPLES + 1))
    query = f"select {', '.join(map(quoted, names))} from {quoted(part.table)} where rowid in ({at})"
    try:
        with contextlib.closing(connect(path)) as con:
            values = list(zip(*con.execute(query), strict=True))
    except sqlite3.Error:
        return {}
    found = zip(names, values, strict=bool(values))
    return {name: _plain(cells[0]) for name, cells in found if len(set(cells)) == 1 and _fits(cells[0], names[name])}


def _fits(cell: object, kind: Kind) -> bool:
    """Whether a cell is of its column's kind, and can stand in a query as it is."""
    if isinstance(cell, bytes):
        return kind == "text" and (cell in (b"", b"[]") or cell.isalnum())
    return cell is None or (kind == "int" and isinstance(cell, int))


def _plain(cell: int | bytes | None) -> _Plain:
    return cell.decode() if isinstance(cell, bytes) else cell


def _with_same(rows: pa.Table, columns: Columns, same: Mapping[str, _Plain]) -> pa.Table:
    """The rows with those columns that are the same in all of them, in order."""
    scalars = {name: pa.scalar(value, ARROW[columns[name]]) for name, value in same.items()}
    return pa.table(
        {name: pa.repeat(scalars[name], rows.num_rows) if name in scalars else rows.column(name) for name in columns}
    )


def _literal(value: _Plain) -> str:
    return f"'{value}'" if isinstance(value, str) else "null" if value is None else str(value)


def _selected(name: str, kind: Kind) -> str:
    """A column as ADBC reads it exactly: it takes the types of the first rows for those of all.

    So text comes as bytes that are never NULL, beside whether they should be.
    """
    cell = quoted(name)
    return f"coalesce(cast({cell} as blob), x''), {cell} is null" if kind == "text" else cell


def _typed(batch: pa.RecordBatch, columns: Columns, findings: Findings) -> pa.Table:
    arrays, at = {}, 0
    for name, kind in columns.items():
        values = batch.column(at)
        if kind == "text":
            if values.type != pa.binary():
                raise _UnfitError
            absent = batch.column(at + 1).cast(pa.bool_())
            arrays[name] = text_column(pc.if_else(absent, None, values), findings)
            at += 2
            continue
        if values.type != ARROW[kind]:
            if kind == "int" or values.type != pa.int64():
                raise _UnfitError
            values = values.cast(pa.float64())
        arrays[name] = values
        at += 1
    return pa.table(arrays)
