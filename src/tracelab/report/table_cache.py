"""Small tables of a store, read once: a report asks some 70 questions, and each would open every file anew."""

from pathlib import Path

import duckdb

from tracelab import schema

MOST_BYTES = 8 << 20
"""Of files in all, the smallest tables first; in memory they take some 70 times as much. Larger ones stay files."""


def load(con: duckdb.DuckDBPyConnection, store: Path, most_bytes: int = MOST_BYTES) -> None:
    """Let the session's views show tables in memory, as far as these are small."""
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
