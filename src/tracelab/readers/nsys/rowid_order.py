"""Check the order of the rows of an SQLite table, and that no row id is missing."""

import sqlite3

import numpy as np

from tracelab.readers.nsys.export import Array


def query_int(con: sqlite3.Connection, query: str) -> int | None:
    """Return the number that a query returns; None if there is none, or the query fails."""
    try:
        row = con.execute(query).fetchone()
    except sqlite3.DatabaseError:
        return None
    return row[0] if row and isinstance(row[0], int) else None


def has_rows_outside(con: sqlite3.Connection, table: str, first: int, last: int) -> bool:
    """Return whether there are rows before the first or after the last one; one of these then has a damaged id."""
    query = f"select rowid from {quote_name(table)} where rowid"
    return any(query_int(con, f"{query} {end} limit 1") is not None for end in (f"< {first}", f"> {last}"))


def passes_quick_check(con: sqlite3.Connection, table: str | None = None) -> bool:
    """Return whether SQLite finds no damage in the storage of a table, or of the whole file."""
    try:
        return bool(con.execute(f"pragma quick_check({quote_name(table) if table else 1})").fetchone()[0] == b"ok")
    except sqlite3.DatabaseError:
        return False


def are_consecutive(ids: Array, first: int) -> bool:
    """Return whether the ids are consecutive from the first on."""
    numbers = ids.to_numpy(zero_copy_only=False)
    return bool(numbers[0] == first and (np.diff(numbers) == 1).all())


def quote_name(name: str) -> str:
    """Quote a name for SQL; it may contain any character."""
    return '"' + name.replace('"', '""') + '"'
