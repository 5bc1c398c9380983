"""Whether the rows of an SQLite table stand in order, and none is left out where its ranges are read."""

import sqlite3

import numpy as np

from tracelab.readers.nsys.export import Array


def query_int(con: sqlite3.Connection, query: str) -> int | None:
    """The number that a query answers; None where there is none, or the query breaks."""
    try:
        row = con.execute(query).fetchone()
    except sqlite3.DatabaseError:
        return None
    return row[0] if row and isinstance(row[0], int) else None


def has_rows_outside(con: sqlite3.Connection, table: str, first: int, last: int) -> bool:
    """Whether rows stand before the first or behind the last one: then one of these has a damaged id."""
    query = f"select rowid from {quote_name(table)} where rowid"
    return any(query_int(con, f"{query} {end} limit 1") is not None for end in (f"< {first}", f"> {last}"))


def passes_quick_check(con: sqlite3.Connection, table: str | None = None) -> bool:
    """Whether SQLite finds nothing wrong with how a table, or the whole file, is stored."""
    try:
        return bool(con.execute(f"pragma quick_check({quote_name(table) if table else 1})").fetchone()[0] == b"ok")
    except sqlite3.DatabaseError:
        return False


def are_consecutive(ids: Array, first: int) -> bool:
    """Whether the ids are one after the other, from the first on."""
    numbers = ids.to_numpy(zero_copy_only=False)
    return bool(numbers[0] == first and (np.diff(numbers) == 1).all())


def quote_name(name: str) -> str:
    """A name as SQL has it, whatever it holds."""
    return '"' + name.replace('"', '""') + '"'
