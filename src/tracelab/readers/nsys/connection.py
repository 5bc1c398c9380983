"""A connection to an SQLite file that changes nothing, and what the file says of itself."""

import os
import sqlite3
from pathlib import Path
from urllib.parse import quote

from tracelab.readers.nsys.export import Kind, Part
from tracelab.readers.nsys.rowid_order import quoted

READABLE_WHERE_CUT = "pragma writable_schema = 1"
"""Without it SQLite refuses every page of a file that is shorter than its header says; read-only, it writes nothing."""


def is_cut(path: Path) -> bool:
    """Whether the file is shorter than its header says: the page size stands at byte 16, the pages' number at 28."""
    with path.open("rb") as file:
        header = file.read(100)
    page_bytes, pages = int.from_bytes(header[16:18], "big"), int.from_bytes(header[28:32], "big")
    return path.stat().st_size < (1 << 16 if page_bytes == 1 else page_bytes) * pages


def connect(path: Path) -> sqlite3.Connection:
    """A connection that changes nothing, and gives text as bytes."""
    con = sqlite3.connect(uri(path), uri=True, check_same_thread=False)
    con.text_factory = bytes
    con.execute(READABLE_WHERE_CUT)
    return con


def has_unmerged_rows(path: Path) -> bool:
    """Whether a write-ahead log stands beside the file, which only a writing connection could merge."""
    log = path.with_name(path.name + "-wal")
    return log.is_file() and log.stat().st_size > 0


def uri(path: Path) -> str:
    """The file as SQLite opens it: read-only, and as nobody else changes it."""
    return f"file:{quote(os.fsencode(path.resolve()))}?mode=ro&immutable=1"


def text_of(name: object) -> str:
    """A name of the file's as text, whatever bytes it has."""
    return name.decode(errors="surrogateescape") if isinstance(name, bytes) else str(name)


def columns_of(con: sqlite3.Connection, table: str) -> dict[str, Kind]:
    """The columns of a table, by their declared types; none where it cannot be asked."""
    try:
        rows = con.execute(f"pragma table_info({quoted(table)})").fetchall()
    except sqlite3.DatabaseError:
        return {}
    return {text_of(row[1]): _kind(text_of(row[2])) for row in rows if can_be_asked_for(text_of(row[1]))}


def can_be_asked_for(name: str) -> bool:
    """Whether a name is UTF-8: of a damaged one SQLite cannot be told."""
    return not any("\ud800" <= letter <= "\udfff" for letter in name)


def _kind(declared: str) -> Kind:
    """SQLite's own rules of affinity, in their order."""
    upper = declared.upper()
    if "INT" in upper:
        return "int"
    if any(word in upper for word in ("CHAR", "CLOB", "TEXT", "BLOB")) or not upper:
        return "text"
    return "real"


def ranged(selected: str, part: Part) -> str:
    """The query for some columns of a part, in the order of its row ids."""
    return (
        f"select {selected} from {quoted(part.table)} where rowid between {part.first} and {part.last} order by rowid"
    )
