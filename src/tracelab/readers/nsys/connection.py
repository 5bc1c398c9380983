"""Open an SQLite file read-only and read what it declares about itself."""

import os
import sqlite3
from pathlib import Path
from urllib.parse import quote

from tracelab.readers.nsys.export import Kind, Part
from tracelab.readers.nsys.rowid_order import quote_name

PRAGMA_READ_TRUNCATED = "pragma writable_schema = 1"
"""Without this, SQLite refuses every page of a file that is shorter than its header declares.

Read-only, it writes nothing.
"""


def is_truncated(path: Path) -> bool:
    """Return whether the file is shorter than its header declares: page size at byte 16, number of pages at byte 28."""
    with path.open("rb") as file:
        header = file.read(100)
    page_bytes, pages = int.from_bytes(header[16:18], "big"), int.from_bytes(header[28:32], "big")
    return path.stat().st_size < (1 << 16 if page_bytes == 1 else page_bytes) * pages


def connect(path: Path) -> sqlite3.Connection:
    """Open a read-only connection that returns text as bytes."""
    con = sqlite3.connect(read_only_uri(path), uri=True, check_same_thread=False)
    con.text_factory = bytes
    con.execute(PRAGMA_READ_TRUNCATED)
    return con


def has_unmerged_rows(path: Path) -> bool:
    """Return whether a write-ahead log is next to the file; only a writing connection can merge it."""
    log = path.with_name(path.name + "-wal")
    return log.is_file() and log.stat().st_size > 0


def read_only_uri(path: Path) -> str:
    """Return the URI that opens the file read-only and as immutable."""
    return f"file:{quote(os.fsencode(path.resolve()))}?mode=ro&immutable=1"


def decode_name(name: object) -> str:
    """Decode a name of the file, which may be any bytes."""
    return name.decode(errors="surrogateescape") if isinstance(name, bytes) else str(name)


def list_columns(con: sqlite3.Connection, table: str) -> dict[str, Kind]:
    """Return the columns of a table by their declared types; none if it is unreadable."""
    try:
        rows = con.execute(f"pragma table_info({quote_name(table)})").fetchall()
    except sqlite3.DatabaseError:
        return {}
    return {
        decode_name(row[1]): _kind_of_type(decode_name(row[2])) for row in rows if is_valid_name(decode_name(row[1]))
    }


def is_valid_name(name: str) -> bool:
    """Return whether a name is UTF-8; SQLite accepts no other in a query."""
    return not any("\ud800" <= letter <= "\udfff" for letter in name)


def _kind_of_type(declared: str) -> Kind:
    """Apply SQLite's rules of type affinity, in their order."""
    upper = declared.upper()
    if "INT" in upper:
        return "int"
    if any(word in upper for word in ("CHAR", "CLOB", "TEXT", "BLOB")) or not upper:
        return "text"
    return "real"


def range_query(selected: str, part: Part) -> str:
    """Return the query of some columns of a part, in the order of its row ids."""
    return (
        f"select {selected} from {quote_name(part.table)} "
        f"where rowid between {part.first} and {part.last} order by rowid"
    )
