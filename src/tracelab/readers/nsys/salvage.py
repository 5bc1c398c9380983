"""Read the rows of a damaged SQLite table: scan on from every readable row, and query each row id between alone."""

import itertools
import sqlite3
from collections.abc import Iterator
from typing import Any

from tracelab.readers.diagnostics import DiagnosticCounts
from tracelab.readers.nsys.export import Part
from tracelab.readers.nsys.rowid_order import quote_name

Row = tuple[Any, ...]

_BYTES_PER_ROW = 4
"""Fewest bytes of a row on a page; a lost page holds no more rows than that. Beyond, the next row is searched."""

_BYTES_PER_MISS = 16
"""Bytes of the file for each row id of a part queried in vain, before every row is searched: ids may be far apart."""

_MAX_OUT_OF_PLACE = 64
"""Most consecutive rows of a scan out of place before the scan is abandoned."""

_SEARCH_STEPS = 40
_FIRST = -(1 << 63)
LAST = (1 << 63) - 1
"""Largest row id: the end of a part whose end is unknown."""


def take_rows(rows: Iterator[Row], count: int) -> list[Row]:
    """Return the next rows, at most `count`."""
    return list(itertools.islice(rows, count))


def salvage_rows(
    con: sqlite3.Connection, columns: str, part: Part, diagnostics: DiagnosticCounts, lost: str
) -> Iterator[Row]:
    """Yield all readable rows of a part, each after its row id; the others are counted.

    nsys numbers rows without a gap, so a scan counts as sound if the next row has the next id: after a damaged id
    SQLite ends a range early, without an error, and omits rows that it finds in a query for them alone.
    """
    table = _DamagedTable(con, columns, part.table)
    kept = misses = misses_before_last = 0
    for row in _iter_row_ids(table, part):
        if row is None:
            misses += 1
        else:
            kept, misses_before_last = kept + 1, misses
            yield row
    if part.counted:
        diagnostics.note(lost, part.table, count=max(part.rows - kept, 0))
    elif part.last == LAST:  # rows may be lost after the last one
        diagnostics.note(lost, part.table, count=max(misses_before_last, 1))
    else:
        diagnostics.note(lost, part.table, count=misses if table.is_dense() else min(misses, 1))


def _iter_row_ids(table: "_DamagedTable", part: Part) -> Iterator[Row | None]:
    """Yield the row of each id of the part, in order; None if none is readable."""
    row_id, misses, consecutive_misses = part.first, 0, 0
    while row_id <= part.last:
        for row in () if consecutive_misses else table.following(row_id, part.last):
            yield row
            row_id += 1
        if row_id > part.last:
            return
        searching = consecutive_misses > table.max_consecutive_misses or misses > table.max_misses
        row = table.beyond(row_id) if searching else table.at(row_id)
        if searching and (row is None or row[0] > part.last):
            return
        yield row
        is_missing = row is None
        row_id, misses, consecutive_misses = (
            max(row_id, row[0] if row else row_id) + 1,
            misses + is_missing,
            consecutive_misses + 1 if is_missing else 0,
        )


class _DamagedTable:
    """Queries on a damaged table."""

    def __init__(self, con: sqlite3.Connection, columns: str, table: str) -> None:
        self._con = con
        self._from = f"from {quote_name(table)}"
        self._query = f"select rowid, {columns} {self._from} where rowid"
        page_bytes, pages = (con.execute(f"pragma {name}").fetchone()[0] for name in ("page_size", "page_count"))
        self.max_consecutive_misses = page_bytes // _BYTES_PER_ROW
        self.max_misses = max(page_bytes * pages // _BYTES_PER_MISS, self.max_consecutive_misses)

    def at(self, row_id: int) -> Row | None:
        """Return the row with an id."""
        return next(self._read(f"{self._query} = ?", row_id), None)

    def following(self, first: int, last: int) -> Iterator[Row | None]:
        """Yield rows of consecutive ids while a scan finds them in place; None for a row out of place.

        sqlite3 steps ahead and loses the row before an unreadable one; a query for that row alone finds it. The scan
        begins after the previous row, which may be found by its id even if the first is damaged. A damaged row may
        have the id of its neighbor, so a row in place counts only if the next one is in place, too.
        """
        out_of_place = 0
        previous: Row | None = None
        scanned = self._read(f"{self._query} > ? order by rowid", max(first - 1, _FIRST))
        for row_id, row in zip(range(first, last + 1), scanned, strict=False):
            in_place = row[0] == row_id
            if previous:
                yield previous if in_place else self.at(previous[0]) or previous
            previous = row if in_place else None
            out_of_place = 0 if in_place else out_of_place + 1
            if out_of_place > _MAX_OUT_OF_PLACE:
                return
            if not in_place:
                yield self.at(row_id)
        if previous:
            yield self.at(previous[0]) or previous

    def beyond(self, row_id: int) -> Row | None:
        """Return a readable row from an id on, searched in steps that double."""
        for step in (0, *(1 << power for power in range(_SEARCH_STEPS))):
            for row in self._read(f"{self._query} >= ? order by rowid limit 1", min(row_id + step, LAST)):
                return row
        return None

    def is_dense(self) -> bool:
        """Return whether no row id is missing, as far as the table shows.

        One query for all three would make SQLite read damaged ids, too.
        """
        last, first, count = (f"(select {number} {self._from})" for number in ("max(rowid)", "min(rowid)", "count(*)"))
        return bool(next(self._read(f"select coalesce({last} - {first} < {count}, 1)"), (1,))[0])

    def _read(self, query: str, *row_ids: int) -> Iterator[Row]:
        """Yield what SQLite can read; row ids are parameters, because parsing SQL takes longer than finding a row."""
        try:
            yield from self._con.execute(query, row_ids)
        except sqlite3.DatabaseError:
            return
