"""Read an SQLite export read-only, in ranges of row ids, as Arrow through ADBC; row by row after damage."""

import contextlib
import functools
import itertools
import sqlite3
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from tracelab.errors import NotProfilerDataError, SourceError
from tracelab.readers.diagnostics import DiagnosticCounts
from tracelab.readers.nsys import adbc_scan, salvage
from tracelab.readers.nsys.coerce import build_column
from tracelab.readers.nsys.connection import (
    connect,
    decode_name,
    is_truncated,
    is_valid_name,
    list_columns,
    range_query,
)
from tracelab.readers.nsys.export import Columns, Part, has_nsys_tables
from tracelab.readers.nsys.rowid_order import (
    are_consecutive,
    has_rows_outside,
    passes_quick_check,
    query_int,
    quote_name,
)

MAGIC = b"SQLite format 3\0"
DESCRIPTION = "an Nsight Systems export (SQLite, or a folder of Parquet files)"

_MOST_TABLES = 500
"""Each query parses the declarations of all tables."""

_CHECKED_BYTES = 64 << 20
_PART_ROWS = 1 << 17
_PARTS = 4096
_ENDS = ("min", "max")


@dataclass(frozen=True)
class SqliteExport:
    """The tables of one file."""

    path: Path
    tables: dict[str, Columns]
    cut: bool = False
    """Whether the file is shorter than its header declares."""
    sound: dict[str, bool] = field(default_factory=dict, compare=False)
    """Tables that were checked, and whether their rows are in order."""

    def parts(self, table: str) -> list[Part]:
        """Return ranges of row ids; a single range if the table does not know its first and last id."""
        with contextlib.closing(connect(self.path)) as con:
            first, last = (query_int(con, f"select {end}(rowid) from {quote_name(table)}") for end in _ENDS)
            if first is None and self.is_sound(table):
                return []
            if first is None or last is None or last < first or self._has_damaged_end(con, table, first, last):
                rows = query_int(con, f"select count(*) from {quote_name(table)}")
                return [Part(table, min(1, first or 1), salvage.LAST, rows or 0, counted=rows is not None)]
        if last - first > self.path.stat().st_size:  # ids that far apart have few rows
            return [Part(table, first, last, 0)]
        count = min(_PARTS, -(-(last - first + 1) // _PART_ROWS))
        bounds = [first + (last - first + 1) * at // count for at in range(count + 1)]
        return [Part(table, start, end - 1, end - start) for start, end in itertools.pairwise(bounds)]

    def _has_damaged_end(self, con: sqlite3.Connection, table: str, first: int, last: int) -> bool:
        """Return whether the first or last row has a damaged id; nsys numbers from 1."""
        return (first != 1 and not self.is_sound(table)) or has_rows_outside(con, table, first, last)

    def is_sound(self, table: str) -> bool:
        """Return whether SQLite finds no damage in the storage of the table; checked once."""
        if table not in self.sound:
            with contextlib.closing(connect(self.path)) as con:
                self.sound[table] = passes_quick_check(con, table)
        return self.sound[table]

    def batches(
        self, part: Part, columns: Columns, diagnostics: DiagnosticCounts, lost: str, steady: Collection[str] = ()
    ) -> Iterator[pa.Table]:
        """Yield the rows of a part through ADBC; after an error, or a gap in row ids of a damaged table, one by one."""
        start = part.first
        try:
            constants = adbc_scan.find_constant_columns(self.path, part, {name: columns[name] for name in steady})
            for rows, ids in adbc_scan.scan_batches(self.path, part, columns, diagnostics, constants):
                if not are_consecutive(ids, start) and not self.is_sound(part.table):
                    break
                start = ids[-1].as_py() + 1
                yield _drop_zero_rows(rows, part.table, diagnostics, lost) if self.cut else rows
            if start > part.last or self.is_sound(part.table):
                return
        except adbc_scan.scan_errors():
            if start > part.last:
                return
        for rows in self._read_slowly(_remaining_part(part, start), columns, diagnostics, lost):
            yield _drop_zero_rows(rows, part.table, diagnostics, lost) if self.cut else rows

    def _read_slowly(
        self, part: Part, columns: Columns, diagnostics: DiagnosticCounts, lost: str
    ) -> Iterator[pa.Table]:
        """Yield batches of rows read one by one, around unreadable places."""
        names = ", ".join(map(quote_name, columns))
        with contextlib.closing(connect(self.path)) as con:
            rows = self._iter_rows(con, names, part, diagnostics, lost)
            while cells := salvage.take_rows(rows, adbc_scan.BATCH_ROWS):
                yield pa.table(
                    {
                        name: build_column(values, kind, name, diagnostics)
                        for (name, kind), values in zip(
                            columns.items(), list(zip(*cells, strict=True))[1:], strict=True
                        )
                    }
                )

    def _iter_rows(
        self, con: sqlite3.Connection, names: str, part: Part, diagnostics: DiagnosticCounts, lost: str
    ) -> Iterator[salvage.Row]:
        """Yield rows after their ids: in order while the table is sound, then those that can be salvaged."""
        start = part.first
        if self.is_sound(part.table):
            try:
                for row in con.execute(range_query(f"rowid, {names}", part)):
                    start = row[0] + 1
                    yield row
            except sqlite3.DatabaseError:  # in a row whose id is in order
                self.sound[part.table] = False
            else:
                return
        yield from salvage.salvage_rows(con, names, _remaining_part(part, start), diagnostics, lost)


def _remaining_part(part: Part, start: int) -> Part:
    """Return the rest of a part from a row on."""
    return replace(part, first=start, rows=max(part.rows - (start - part.first), 0))


def _drop_zero_rows(rows: pa.Table, table: str, diagnostics: DiagnosticCounts, lost: str) -> pa.Table:
    """Drop rows that are all NULL: SQLite reads zeros after the end of a file cut within a page."""
    if not all(column.null_count for column in rows.columns):
        return rows
    has_values = functools.reduce(pc.or_, (pc.is_valid(column) for column in rows.columns))
    diagnostics.note(lost, table, count=rows.num_rows - (pc.sum(has_values).as_py() or 0))
    return rows.filter(has_values)


def fails_quick_check(path: Path) -> bool:
    """Return whether a file small enough to be checked as a whole (3 ms per MB) is damaged."""
    if path.stat().st_size > _CHECKED_BYTES:
        return False
    with contextlib.closing(connect(path)) as con:
        return not passes_quick_check(con)


def open_file(path: Path) -> SqliteExport:
    """Open the export in a file. Raises NotProfilerDataError for another tool's file, SourceError for a damaged one."""
    try:
        with contextlib.closing(connect(path)) as con:
            names = con.execute("select name from sqlite_master where type = 'table'").fetchall()
            if len(names) > _MOST_TABLES:
                raise SourceError(path, f"has {len(names):,} tables, where an export of Nsight Systems has about 100")
            table_names = [decode_name(name) for (name,) in names]
            tables: dict[str, Columns] = {name: list_columns(con, name) for name in table_names if is_valid_name(name)}
    except sqlite3.DatabaseError as error:
        raise SourceError(path, f"the SQLite file is damaged ({error}); export the report again") from error
    tables = {name: columns for name, columns in tables.items() if columns}
    if not has_nsys_tables(tables):
        raise NotProfilerDataError(path, f"no tables of Nsight Systems; expected {DESCRIPTION}")
    return SqliteExport(path, tables, is_truncated(path))
