"""Cache small tables in memory: a report runs some 70 queries, and each would open every file again."""

from pathlib import Path

import duckdb

from tracelab import schema

MOST_BYTES = 8 << 20
"""Limit on the files' total size, smallest tables first; in memory they take some 70 times as much."""


def cache_small_tables(con: duckdb.DuckDBPyConnection, store: Path, most_bytes: int = MOST_BYTES) -> None:
    """Replace the session's views of small tables by tables in memory."""
    sizes = {table.name: _stored_bytes(store, table.name) for table in schema.TABLES}
    con.execute("create schema loaded").fetchall()
    total = 0
    for name in sorted(sizes, key=lambda name: (sizes[name], name)):
        total += sizes[name]
        if total > most_bytes:
            return
        con.execute(f"create table loaded.{name} as from {name}").fetchall()
        con.execute(f"create or replace view {name} as from loaded.{name}").fetchall()


def _stored_bytes(store: Path, table: str) -> int:
    return sum(path.stat().st_size for path in store.glob(f"{table}/run=*/*.parquet"))
