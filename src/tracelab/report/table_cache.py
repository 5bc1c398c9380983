"""Cache small tables in memory: a report runs some 70 queries, and each would open every file again."""

from pathlib import Path

import duckdb

from tracelab import schema
from tracelab.store import commit_log
from tracelab.store.files import LocalFiles

MOST_BYTES = 8 << 20
"""Limit on the files' total size, smallest tables first; in memory they take some 70 times as much."""


def cache_small_tables(con: duckdb.DuckDBPyConnection, store: Path, most_bytes: int = MOST_BYTES) -> None:
    """Replace the session's views of small tables by tables in memory."""
    sizes = _count_bytes(store)
    con.execute("create schema loaded").fetchall()
    total = 0
    for name in sorted(filter(sizes.get, sizes), key=lambda name: (sizes[name], name)):  # an empty one opens no file
        total += sizes[name]
        if total > most_bytes:
            return
        con.execute(f"create table loaded.{name} as from {name}").fetchall()
        con.execute(f"create or replace view {name} as from loaded.{name}").fetchall()


def _count_bytes(store: Path) -> dict[str, int]:
    """Return the size of each table's files."""
    sizes = {table.name: 0 for table in schema.TABLES}
    for part in commit_log.read_snapshot(LocalFiles(store)).parts.values():
        for table, file in part.files.items():
            sizes[table] += file.size_bytes
    return sizes
