"""Relations that several queries read, such as the matched collectives: a session makes each once for a run.

Each is a file of queries/shared, which may read others, and computed tables. A query names them like tables. In a
session, a table in memory has their rows until it ends; where the text of a query is shown, they are CTEs of it. One
with $rank has, for a query of one rank, this rank alone unless all of the run are there: only a query that needs no
other ranks names it. What only one query reads is a relation so that a store can keep it, and else a CTE of the query.
"""

import hashlib
import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Protocol

import duckdb
import pyarrow as pa

from tracelab import computations
from tracelab.resources import QUERIES
from tracelab.store import execution

SCHEMA = "computed"
"""The schema of a session whose tables hold what was computed in it."""

_CREATING = threading.Lock()
_LOCKS: dict[str, threading.Lock] = {}

LEAST_KEPT_ROWS = 50_000
"""Rows of a run from which on its relations are kept: to compute fewer takes less than half a second."""

_LEAST_ENCODED_ROWS = 100_000

ACTIVITY = "gpu_activity"
"""The view whose rows decide whether a run has many, as those of ops do where a relation reads them."""
_OPS = "ops"
LARGE_TABLES = (ACTIVITY, _OPS, "api_calls")
"""The view and tables by whose rows a run is large: relations follow from them, or the tables of computations."""
_COUNTED = (ACTIVITY, "unscoped_activity", "recorded_kernels", "kernels", _OPS)
"""Tables and views whose rows count where a relation has few rows, but it, or one that it reads, follows from many."""

_ONE_QUERY = "-- /// of one query\n"
"""The line of a file whose relation only one query names."""

_ONE_RUN = "-- /// of a session of one run\n"
"""The line of a file whose relation may read captures of other runs: only a session that has none keeps it."""

_VALUE = re.compile(r"^-- /// where (\w+) = (.+)$", re.MULTILINE)
"""The line of such a file with a parameter of the query, and the value, as JSON, with which the relation is kept."""

_WITH = re.compile(r"\s*with\s+(?:--.*\n\s*)*(?=\w+\s+as\b)", re.IGNORECASE)


def names_computed(text: str) -> bool:
    """Return whether a SQL text names a computed table or a shared relation, which a session makes before it runs."""
    return bool(named_computations(text)) or not words_of(text).isdisjoint(_definitions())


def keeps_sums(text: str) -> bool:
    """Return whether a query with this text keeps something that its next answer is read from, of a large run."""
    return not words_of(text).isdisjoint(_definitions()) or any(
        each.kept or each.kept_by_params for each in named_computations(text)
    )


def named_computations(text: str) -> list[computations.Computation]:
    """Return the computations whose tables a SQL text names, in any case."""
    words = words_of(text)
    return [each for each in computations.COMPUTATIONS if any(table.name in words for table in each.tables)]


def required_computations(text: str) -> list[computations.Computation]:
    """Return the computations that a SQL text may need: it names their tables, or shared relations that read these."""
    return named_computations("\n".join([text, *definitions(text)]))


def words_of(text: str) -> set[str]:
    """Return the words of a SQL text in lower case, among them the names of the tables that it reads."""
    return set(re.findall(r"\w+", text.lower()))


def named(text: str) -> list[str]:
    """Return the shared relations that a SQL text names, and those that these read, each after what it reads."""
    wanted: dict[str, None] = {}
    for name in sorted(words_of(text) & _definitions().keys()):
        wanted |= dict.fromkeys([*named(_definitions()[name]), name])
    return list(wanted)


def definitions(text: str) -> list[str]:
    """Return the SQL of the shared relations that a text needs."""
    return [_definitions()[name] for name in named(text)]


class Kept(Protocol):
    """The relations of runs that a store keeps; `texts` are the definitions that a relation follows from."""

    @property
    def keys(self) -> Mapping[str, str]:
        """Return what the rows of each run of the session rest on."""

    def read(self, name: str, texts: Sequence[str], run: str) -> pa.Table | None:
        """Return the rows of a relation of one run; None where the store has none."""

    def write(self, name: str, texts: Sequence[str], run: str, read_rows: Callable[[], pa.Table]) -> None:
        """Keep the rows of a relation of one run."""


@dataclass(frozen=True)
class _Part:
    """The rows of a relation of one run, and of one rank; None for all."""

    run: str | None
    rank: int | None = None


def provide(
    con: duckdb.DuckDBPyConnection,
    text: str,
    runs: Sequence[str] | None,
    open_kept: Callable[[], Kept | None] | None = None,
    rank: int | None = None,
) -> None:
    """Make the shared relations that a text names readable: of some runs, or of all; those with $rank of one rank.

    Those of large runs are taken from what the store keeps, and kept there once they are computed.
    """
    names = sorted(words_of(text) & _definitions().keys())
    if not names:
        return
    kept = open_kept() if open_kept and not execution.has_few_rows(con) else None
    if runs is None and kept is not None and len(kept.keys) == 1:
        runs = list(kept.keys)
    create_schema(con)
    sources: dict[str, list[str]] = {name: [] for name in names}
    for run in [None] if runs is None else runs:
        for name in names:
            sources[name].append(_provide_one(con, name, _Part(run, rank), kept))
    if runs is not None and len(runs) != 1:
        for name in names:
            parts = [f"from {source}" for source in sources[name]]
            con.execute(f"create or replace temp view {name} as {' union all '.join(parts)}").fetchall()


def create_schema(con: duckdb.DuckDBPyConnection) -> None:
    """Create the schema of computed tables unless the session has it: several threads may want it at once."""
    with _CREATING:
        con.execute(f"create schema if not exists {SCHEMA}").fetchall()


def _provide_one(con: duckdb.DuckDBPyConnection, name: str, part: _Part, kept: Kept | None) -> str:
    """Make a relation readable, with those that it reads where it is computed; return what to read it from."""
    with _lock(name):
        source = _make_one(con, name, part, kept)
    con.execute(f"create or replace temp view {name} as from {source}").fetchall()
    return source


def _make_one(con: duckdb.DuckDBPyConnection, name: str, part: _Part, kept: Kept | None) -> str:
    """Store the rows of a relation unless the session has them; return what to read them from."""
    whole = _Part(part.run)
    source = _find_stored(con, name, whole) or _read_kept(con, name, whole, kept)
    if source is None and part != whole and "$rank" in _definitions()[name]:
        source = _find_stored(con, name, part)
    else:
        part = whole
    if source is None:
        for read in sorted(words_of(_definitions()[name]) & _definitions().keys()):
            _provide_one(con, read, part, kept)
        _provide_computed(con, name, part)
        source = _compute(con, name, part)
        _keep(con, name, part, kept)
    return source


def _provide_computed(con: duckdb.DuckDBPyConnection, name: str, part: _Part) -> None:
    """Make the computed tables readable that a relation reads."""
    if named_computations(_definitions()[name]):
        from tracelab.store import computed_tables

        computed_tables.provide(con, _definitions()[name], {"run": part.run, **_values(name)})


def _lock(name: str) -> threading.Lock:
    """Return what is held while a relation is made: cursors of several threads make it once, and others meanwhile.

    Relations read no other in a circle, so no two threads wait for each other.
    """
    return _LOCKS.setdefault(name, threading.Lock())


def kept_values(sql: str) -> dict[str, str | float | None]:
    """Return the parameters of the relations that a query names, with the values for which these are kept."""
    return {param: value for name in named(sql) for param, value in _values(name).items()}


def write_into(sql: str) -> str:
    """Return a query with the shared relations that it names as CTEs."""
    return _write_ctes(sql, named(sql))


def names_own(sql: str) -> bool:
    """Return whether a query names relations that no other query names."""
    return not words_of(sql).isdisjoint(_relations_of_one_query())


def reads_other_runs(sql: str) -> bool:
    """Return whether a query names relations that may read rows of other runs, where the session has any."""
    return any(_ONE_RUN in _texts_of_files()[name] for name in named(sql))


def is_large(con: duckdb.DuckDBPyConnection, run: str) -> bool:
    """Return whether a run has so many rows of GPUs, ops or calls that what follows from them is kept."""
    return any(_has_many(con, _select_run(table, run)) for table in LARGE_TABLES)


def follows_from_many_rows(con: duckdb.DuckDBPyConnection, sql: str, run: str | None) -> bool:
    """Return whether what a query names follows from so many rows of a run, or of all together, that it is kept."""
    read = {ACTIVITY} | words_of("\n".join(definitions(sql)))
    tables = (table for table in (ACTIVITY, _OPS) if table in read)
    return any(_has_many(con, table if run is None else _select_run(table, run)) for table in tables)


def write_unkept(sql: str) -> tuple[str, str]:
    """Return a query with the relations that no other one names as CTEs, and a text with the names that it still needs.

    A CTE takes less time than a table, which no other query would read.
    """
    own = sorted(words_of(sql) & _relations_of_one_query())
    needed = words_of("\n".join([sql, *(_definitions()[name] for name in own)])) - set(own)
    return _write_ctes(sql, own), " ".join(needed)


def _write_ctes(sql: str, names: Sequence[str]) -> str:
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
    return {name: re.sub(r"^--.*\n", "", text, flags=re.MULTILINE).strip() for name, text in _texts_of_files().items()}


@cache
def _values(name: str) -> dict[str, str | float | None]:
    return {param: json.loads(value) for param, value in _VALUE.findall(_texts_of_files()[name])}


@cache
def _relations_of_one_query() -> frozenset[str]:
    return frozenset(name for name, text in _texts_of_files().items() if _ONE_QUERY in text)


@cache
def _texts_of_files() -> dict[str, str]:
    return {path.stem: path.read_text(encoding="utf-8") for path in sorted((QUERIES / "shared").glob("*.sql"))}


def _find_stored(con: duckdb.DuckDBPyConnection, name: str, part: _Part) -> str | None:
    """Return what to read the rows of a relation from that the session has; None where it has none.

    Those of one run are a part of those of all runs, where the session has these.
    """
    existing = con.execute("select table_name from duckdb_tables() where schema_name = ?", [SCHEMA]).fetchall()
    every = _table(name, _Part(None))
    if part.run is not None and (every,) in existing:
        return _select_run(f"{SCHEMA}.{every}", part.run)
    return f"{SCHEMA}.{_table(name, part)}" if (_table(name, part),) in existing else None


def _select_run(table: str, run: str) -> str:
    literal = run.replace("'", "''")
    return f"(from {table} where run = '{literal}')"


def _compute(con: duckdb.DuckDBPyConnection, name: str, part: _Part) -> str:
    table, sql = f"{SCHEMA}.{_table(name, part)}", _definitions()[name]
    values = {"run": part.run, "rank": part.rank, **_values(name)}
    con.execute(
        f"create table {table} as {sql}", {key: value for key, value in values.items() if f"${key}" in sql}
    ).fetchall()
    return table


def _read_kept(con: duckdb.DuckDBPyConnection, name: str, part: _Part, kept: Kept | None) -> str | None:
    """Store the kept rows of a relation of one run in the session."""
    rows = kept.read(name, _texts(name), part.run) if kept and part.run is not None and part.run in kept.keys else None
    if rows is None:
        return None
    table = f"{SCHEMA}.{_table(name, part)}"
    con.register("kept_rows", rows)
    try:
        con.execute(f"create table {table} as from kept_rows").fetchall()
    finally:
        con.unregister("kept_rows")
    return table


def _keep(con: duckdb.DuckDBPyConnection, name: str, part: _Part, kept: Kept | None) -> None:
    """Keep a relation of one run where it, or what it was computed from, is large."""
    run = part.run
    if kept is None or run is None or run not in kept.keys or part.rank is not None:
        return
    read = words_of("\n".join(definitions(name)))
    if required_computations(name):  # from rows that the macros of its relations read
        read.add(ACTIVITY)
    views = (_select_run(view, run) for view in _COUNTED if view in read)
    tables = (source for each in named(name) if (source := _find_stored(con, each, part)))
    if any(_has_many(con, rows) for rows in chain(views, tables)):
        table = f"{SCHEMA}.{_table(name, part)}"
        kept.write(name, _texts(name), run, lambda: _encode_texts(con.sql(f"from {table}").to_arrow_table()))


def _has_many(con: duckdb.DuckDBPyConnection, table: str) -> bool:
    (count,) = con.execute(f"select count(*) from {table}").fetchall()[0]
    return int(count) >= LEAST_KEPT_ROWS


def _encode_texts(rows: pa.Table) -> pa.Table:
    """Return many rows with texts as numbers of a dictionary, which take a third of the time to write and to read.

    For few rows, to import what makes such numbers takes longer.
    """
    if rows.num_rows < _LEAST_ENCODED_ROWS:
        return rows
    columns = [column.dictionary_encode() if pa.types.is_string(column.type) else column for column in rows.columns]
    return pa.table(columns, names=rows.column_names)


def _texts(name: str) -> list[str]:
    """Return all that the rows of a relation follow from, beside macros and sources."""
    texts = [f"{_definitions()[each]}{_values(each) or ''}" for each in named(name)]
    return [*texts, *(text for each in required_computations(name) for text in texts_of(each))]


def texts_of(computation: computations.Computation) -> list[str]:
    """Return all that the tables of a computation follow from, beside parameters, macros and sources."""
    relations = list(computation.texts.values())
    return [*relations, *definitions("\n".join(relations)), computations.hash_code(computation.function)]


def _table(name: str, part: _Part) -> str:
    """Return the name of the table with the rows of a relation."""
    digest = hashlib.sha256(repr(part).encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{name}_{digest}"


def _indent(sql: str) -> str:
    return "\n".join(f"    {line}" if line else line for line in sql.splitlines())
