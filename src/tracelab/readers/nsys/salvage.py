"""The rows of a damaged SQLite table: on from every row that can be read, and each row id between them alone."""

import itertools
import sqlite3
from collections.abc import Iterator
from typing import Any

from tracelab.readers.diagnostics import DiagnosticCounts
from tracelab.readers.nsys.export import Part
from tracelab.readers.nsys.rowid_order import quote_name

Row = tuple[Any, ...]

_PATIENCE = 1 << 16
"""How many row ids in a row are asked for in vain before the next row is sought: more than one lost page holds."""

_MISSES = 1 << 20
"""How many of a part are, before every row is sought: row ids may be far apart."""

_ASTRAY = 64
"""How many rows in a row may not stand where their ids say, before a scan is given up."""

_GALLOPS = 40
LAST = (1 << 63) - 1
"""The last row id that there can be: where a part ends whose end is not known."""


def take_rows(rows: Iterator[Row], count: int) -> list[Row]:
    """The next rows, at most so many."""
    return list(itertools.islice(rows, count))


def salvage_rows(
    con: sqlite3.Connection, columns: str, part: Part, diagnostics: DiagnosticCounts, lost: str
) -> Iterator[Row]:
    """All rows of a part that can be read, each behind its row id; the others are noted.

    nsys numbers rows without a gap, so a scan is believed where the next row has the next id: behind a damaged id
    SQLite ends a range early, without an error, and leaves rows out that it finds when asked for them alone.
    """
    table = _DamagedTable(con, columns, part.table)
    kept = misses = inner = 0
    for row in _iter_row_ids(table, part):
        if row is None:
            misses += 1
        else:
            kept, inner = kept + 1, misses
            yield row
    if part.counted:
        diagnostics.note(lost, part.table, count=max(part.rows - kept, 0))
    elif part.last == LAST:  # behind the last row there may have been more
        diagnostics.note(lost, part.table, count=max(inner, 1))
    else:
        diagnostics.note(lost, part.table, count=misses if table.is_dense() else min(misses, 1))


def _iter_row_ids(table: "_DamagedTable", part: Part) -> Iterator[Row | None]:
    """The row of each id of the part, in order; None where it has none that can be read."""
    place, misses, waited = part.first, 0, 0
    while place <= part.last:
        for found in () if waited else table.following(place, part.last):
            yield found
            place += 1
        if place > part.last:
            return
        sought = waited > _PATIENCE or misses > _MISSES
        row = table.beyond(place) if sought else table.at(place)
        if sought and (row is None or row[0] > part.last):
            return
        yield row
        missed = row is None
        place, misses, waited = max(place, row[0] if row else place) + 1, misses + missed, waited + 1 if missed else 0


class _DamagedTable:
    """Asks a damaged table for rows."""

    def __init__(self, con: sqlite3.Connection, columns: str, table: str) -> None:
        self._con = con
        self._from = f"from {quote_name(table)}"
        self._query = f"select rowid, {columns} {self._from} where rowid"

    def at(self, row_id: int) -> Row | None:
        """The row with an id."""
        return next(self._read(f"{self._query} = {row_id}"), None)

    def following(self, first: int, last: int) -> Iterator[Row | None]:
        """Rows of one id after the other, as long as a scan meets them at their places; None where it meets another.

        sqlite3 steps ahead, and loses the row before one that cannot be read; a row asked for alone is not lost so.
        The scan begins behind the row before: found by its id that may be, where the first is damaged. A damaged row
        may have the id of its neighbour, so a row in its place is believed when the next one is in its place, too.
        """
        astray = 0
        held: Row | None = None
        scanned = self._read(f"{self._query} > {first - 1} order by rowid")
        for place, row in zip(range(first, last + 1), scanned, strict=False):
            in_place = row[0] == place
            if held:
                yield held if in_place else self.at(held[0]) or held
            held = row if in_place else None
            astray = 0 if in_place else astray + 1
            if astray > _ASTRAY:
                return
            if not in_place:
                yield self.at(place)
        if held:
            yield self.at(held[0]) or held

    def beyond(self, row_id: int) -> Row | None:
        """A readable row from one on, looked for in steps that double."""
        for step in (0, *(1 << power for power in range(_GALLOPS))):
            for row in self._read(f"{self._query} >= {row_id + step} order by rowid limit 1"):
                return row
        return None

    def is_dense(self) -> bool:
        """Whether no row id is left out, as far as the table tells; all at once SQLite would ask damaged ids too."""
        last, first, count = (f"(select {number} {self._from})" for number in ("max(rowid)", "min(rowid)", "count(*)"))
        return bool(next(self._read(f"select coalesce({last} - {first} < {count}, 1)"), (1,))[0])

    def _read(self, query: str) -> Iterator[Row]:
        try:
            yield from self._con.execute(query)
        except sqlite3.DatabaseError:
            return
