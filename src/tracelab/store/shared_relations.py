"""Relations that several queries read, such as the matched collectives: a session makes each once for a run.

Each is a file of queries/shared, which may read others. A query names them like tables. In a session, a table in memory
has their rows until it ends; where the text of a query is shown, they are CTEs of it.
"""

import hashlib
import re
import threading
from collections.abc import Sequence
from functools import cache

import duckdb

from tracelab import schema
from tracelab.resources import QUERIES

SCHEMA = "computed"
"""The schema of a session whose tables hold what was computed in it."""
COMPUTING = threading.RLock()
"""Held where a session computes: cursors of several threads may want the same rows."""

_WITH = re.compile(r"\s*with\s+(?=\w+\s+as\b)", re.IGNORECASE)


def named(text: str) -> list[str]:
    """Return the shared relations that a SQL text names, and those that these read, each after what it reads."""
    wanted: dict[str, None] = {}
    for name in sorted(schema.words_of(text) & _definitions().keys()):
        wanted |= dict.fromkeys([*named(_definitions()[name]), name])
    return list(wanted)


def definitions(text: str) -> list[str]:
    """Return the SQL of the shared relations that a text needs."""
    return [_definitions()[name] for name in named(text)]


def provide(con: duckdb.DuckDBPyConnection, text: str, runs: Sequence[str] | None) -> None:
    """Make the shared relations that a text names readable: of one run or more, or of all."""
    names = named(text)
    if not names:
        return
    with COMPUTING:
        con.execute(f"create schema if not exists {SCHEMA}").fetchall()
        sources: dict[str, list[str]] = {name: [] for name in names}
        for run in [None] if runs is None else runs:
            for name in names:
                sources[name].append(_store_once(con, name, run))
                con.execute(f"create or replace temp view {name} as from {sources[name][-1]}").fetchall()
    if runs is not None and len(runs) != 1:
        for name in names:
            parts = [f"from {source}" for source in sources[name]]
            con.execute(f"create or replace temp view {name} as {' union all '.join(parts)}").fetchall()


def write_into(sql: str) -> str:
    """Return a query with the shared relations that it names as CTEs."""
    names = named(sql)
    if not names:
        return sql
    ctes = ",\n".join(f"{name} as materialized (\n{_indent(_definitions()[name])}\n)" for name in names)
    start = _WITH.match(sql)
    return f"with {ctes},\n{sql[start.end() :]}" if start else f"with {ctes}\n{sql}"


def render_placeholders() -> list[str]:
    """Render views that `provide` replaces where a text names them; other clients get an error."""
    problem = "tracelab computes {}: query it with `tracelab sql`, or with Lab.sql in Python"
    return [
        f"create or replace view {name} as select error('{problem.format(name)}') as run;" for name in _definitions()
    ]


@cache
def _definitions() -> dict[str, str]:
    texts = {path.stem: path.read_text(encoding="utf-8") for path in sorted((QUERIES / "shared").glob("*.sql"))}
    return {name: re.sub(r"^--.*\n", "", text, flags=re.MULTILINE).strip() for name, text in texts.items()}


def _store_once(con: duckdb.DuckDBPyConnection, name: str, run: str | None) -> str:
    """Store the rows of a relation in the session unless it has them; return what to read them from.

    Those of one run are a part of those of all runs, where the session has these.
    """
    table, sql = _table(name, run), _definitions()[name]
    existing = con.execute("select table_name from duckdb_tables() where schema_name = ?", [SCHEMA]).fetchall()
    if run is not None and (_table(name, None),) in existing:
        literal = run.replace("'", "''")
        return f"(from {SCHEMA}.{_table(name, None)} where run = '{literal}')"
    if (table,) not in existing:
        con.execute(f"create table {SCHEMA}.{table} as {sql}", {"run": run} if "$run" in sql else {}).fetchall()
    return f"{SCHEMA}.{table}"


def _table(name: str, run: str | None) -> str:
    """Return the name of the table with the rows of a relation."""
    digest = hashlib.sha256(repr(run).encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{name}_{digest}"


def _indent(sql: str) -> str:
    return "\n".join(f"    {line}" if line else line for line in sql.splitlines())
