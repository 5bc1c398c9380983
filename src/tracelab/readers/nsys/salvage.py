"""The rows of a damaged SQLite table: from both ends up to where it breaks, then what stands between the breaks."""

import itertools
import sqlite3
from collections.abc import Iterator
from typing import Any

from tracelab.readers.findings import Findings
from tracelab.readers.nsys.export import Part

Row = tuple[Any, ...]

_TRIES = 4_000
"""How often a part is tried anew behind a break; a break of one page needs some dozen."""

_GALLOPS = 40
_END = (1 << 63) - 1
"""The last row id of a part whose end is not known."""


def some(rows: Iterator[Row], count: int) -> list[Row]:
    """The next rows, at most so many."""
    return list(itertools.islice(rows, count))


def rows(con: sqlite3.Connection, columns: str, part: Part, findings: Findings, lost: str) -> Iterator[Row]:
    """All rows of a part that can be read, each behind its row id; the others are noted."""
    seeker = _Seeker(con, columns, part.table)
    start = part.first
    while True:
        for row in seeker.range(start, part.last):
            start = row[0] + 1
            yield row
        if not seeker.broke:
            return
        if part.last != _END:
            yield from _between(seeker, (start, part.last), findings, lost)
            return
        island = seeker.beyond(max(start, 0))
        if island is None:
            findings.note(lost, part.table)  # at least one: how many follow, nothing tells
            return
        yield from _between(seeker, (max(start, 0), island[0] - 1), findings, lost)
        yield island
        start = island[0] + 1


def _between(seeker: "_Seeker", hole: tuple[int, int], findings: Findings, lost: str) -> Iterator[Row]:
    """What can be read of row ids among which the table breaks: from both ends, then of each half."""
    holes = [hole]
    while holes:
        first, last = holes.pop()
        if first > last:
            continue
        if seeker.tries > _TRIES:
            findings.note(lost, seeker.table, count=last - first + 1)
            continue
        for row in seeker.range(first, last):
            first = row[0] + 1
            yield row
        if not seeker.broke:
            continue
        if first == last:
            findings.note(lost, seeker.table)
            continue
        for row in seeker.range(first, last, "desc"):
            last = row[0] - 1
            yield row
        if seeker.broke:
            middle = (first + last) // 2
            holes += [(middle + 1, last), (first, middle)]


class _Seeker:
    """Reads ranges of row ids, and remembers whether the last one broke."""

    def __init__(self, con: sqlite3.Connection, columns: str, table: str) -> None:
        self._con = con
        self.table = table
        self._query = f'select rowid, {columns} from "{table.replace(chr(34), chr(34) * 2)}" where rowid'
        self.broke = False
        self.tries = 0

    def range(self, first: int, last: int, order: str = "asc") -> Iterator[Row]:
        """Rows in order, up to the last one or to one that cannot be read.

        sqlite3 steps ahead, and loses the row before one that cannot be read; a row alone is not lost so.
        """
        if first == last:
            return self._read(f"{self._query} = {first}")
        return self._read(f"{self._query} between {first} and {last} order by rowid {order}")

    def beyond(self, row_id: int) -> Row | None:
        """A readable row from one on, looked for in steps that double."""
        if self.tries > _TRIES:
            return None
        for step in (0, *(1 << power for power in range(_GALLOPS))):
            for row in self._read(f"{self._query} >= {row_id + step} order by rowid limit 1"):
                return row
        return None

    def _read(self, query: str) -> Iterator[Row]:
        self.tries += 1
        self.broke = False
        try:
            yield from self._con.execute(query)
        except sqlite3.DatabaseError:
            self.broke = True
