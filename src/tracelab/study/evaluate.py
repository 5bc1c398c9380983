"""Evaluate a row of a study: its runs, the library queries over them, its cells and its verdict."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import duckdb
import pyarrow as pa

from tracelab.errors import NoDataError, TracelabError
from tracelab.query import execute, library
from tracelab.store import execution
from tracelab.study.spec import QueryCall, Row

CELLS: dict[str, str] = {
    "quantity": "varchar",
    "run": "varchar",
    "model": "varchar",
    "machine": "varchar",
    "batch_size": "bigint",
    "gpus": "bigint",
    "setting": "varchar",
    "status": "varchar",
    "unit": "varchar",
    "published": "double",
    "study": "double",
    "corrected": "double",
    "claim": "varchar",
    "place": "varchar",
}
"""Columns of a row's cells: the identity of the cell, the published figure, the study's method on the data at hand, and
the corrected figure. `status` is that of a failed run, whose figures end at the failure. Columns that a row's SQL does
not select are NULL."""

FIGURES = ("published", "study", "corrected")
ANSWERED, PUBLISHED, CAPTURE = "answered", "published", "needs capture"


@dataclass(frozen=True)
class Answer:
    """A row with its cells and its verdict; `charted` holds the results of its library queries, for its chart."""

    row: Row
    runs: tuple[str, ...]
    cells: pa.Table
    verdict: str
    charted: Mapping[str, pa.Table] = field(default_factory=dict)


@dataclass(frozen=True)
class State:
    """Whether a row has runs in the store, published figures alone, or nothing yet."""

    row: Row
    state: str
    runs: tuple[str, ...]


def row_states(con: duckdb.DuckDBPyConnection, rows: Sequence[Row], runs: Sequence[str] = ()) -> list[State]:
    """Return the state of each row."""
    return [State(row, _state(row, fitting), fitting) for row in rows for fitting in [_matching_runs(con, row, runs)]]


def _state(row: Row, runs: tuple[str, ...]) -> str:
    return ANSWERED if runs else PUBLISHED if row.alone else CAPTURE


def evaluate_row(con: duckdb.DuckDBPyConnection, row: Row, runs: Sequence[str] = ()) -> Answer:
    """Evaluate a row from the named runs, or from all that fit; NoDataError names the command that records one."""
    fitting = _matching_runs(con, row, runs)
    if not fitting and not row.alone:
        raise NoDataError(missing_run_hint(row))
    with _input_tables(con, row, fitting):
        with _restrict_cells(con, runs):
            charted = {name: _run_query(con, name, call, fitting) for name, call in row.answers.items()}
        statements = [statement.query for statement in con.extract_statements(row.sql)]
        if len(statements) != 2:  # noqa: PLR2004  the cells, and the verdict
            raise TracelabError(f"{row.id}: its file holds {len(statements)} statements; it needs cells and a verdict")
        cells = _conform_cells(con, row, statements[0])
        con.register("cells", cells)
        verdict = next((text for (text,) in con.execute(statements[1]).fetchall()), None)
    return Answer(row, fitting, cells, str(verdict or "The data at hand are not enough for a verdict."), charted)


def missing_run_hint(row: Row) -> str:
    """Return an error text for a row without runs, with the commands that record one."""
    return (
        f"{row.id} ({row.title}) has no run that fits; record one with `{row.capture}` and ingest its folder, "
        f"or see `tracelab study show {row.id} --example`"
    )


def _matching_runs(con: duckdb.DuckDBPyConnection, row: Row, runs: Sequence[str]) -> tuple[str, ...]:
    """Return the runs that a row's `fits` selects."""
    if row.fits is None:
        return ()
    fitting = con.sql(f"select run from recorded where {row.fits} order by run").fetchall()
    return tuple(str(run) for (run,) in fitting if not runs or run in runs)


@contextmanager
def _input_tables(con: duckdb.DuckDBPyConnection, row: Row, runs: Sequence[str]) -> Iterator[None]:
    """Create `published` (the row's figures) and `fitting` (its runs), and unregister the row's tables afterwards."""
    con.execute("create or replace temp table fitting as from recorded where run in (select unnest(?))", [list(runs)])
    con.execute("create or replace temp table published as from figures where row = ?", [row.id])
    try:
        yield
    finally:
        for name in (*row.answers, "cells"):
            con.unregister(name)


@contextmanager
def _restrict_cells(con: duckdb.DuckDBPyConnection, runs: Sequence[str]) -> Iterator[None]:
    """Restrict queries about sweeps to the named runs; without names, use all.

    Some of their results (such as a crossover) name no run to filter by. All of them read the view `cells`, which a
    temporary table of that name hides.
    """
    if not runs:
        yield
        return
    con.execute("create temp table cells as from cells where run in (select unnest(?))", [list(runs)])
    try:
        yield
    finally:
        con.execute("drop table temp.cells")


def _run_query(con: duckdb.DuckDBPyConnection, name: str, call: QueryCall, runs: Sequence[str]) -> pa.Table:
    """Run a library query, keep the rows of fitting runs, and register them as a relation of that name."""
    query = library.find(call.query)
    values = dict(call.values)
    if any(param.name == "run" for param in query.params) and len(runs) < 2:  # noqa: PLR2004  only one, or none
        values["run"] = runs[0] if runs else ""
    result = execute.fetch_unchecked(con, query, values)
    if "run" in result.column_names:
        con.register("unfiltered", result)
        result = execution.fetch_table(con, "from unfiltered where run in (select run from fitting)")
        con.unregister("unfiltered")
    con.register(name, result)
    return result


def _conform_cells(con: duckdb.DuckDBPyConnection, row: Row, sql: str) -> pa.Table:
    """Return the cells in the order and types of `CELLS`."""
    rows = execution.fetch_table(con, sql)
    con.register("selected", rows)
    selected = rows.column_names
    columns = ", ".join(f"{name if name in selected else 'null'}::{kind} as {name}" for name, kind in CELLS.items())
    if wrong := [name for name in selected if name not in CELLS]:
        raise TracelabError(f"{row.id}: its cells have a column {wrong[0]!r}; they can have {', '.join(CELLS)}")
    cells = execution.fetch_table(con, f"select {columns} from selected")
    con.unregister("selected")
    return cells
