"""A row answered: the runs that fit, the library's answers over them, the figures side by side, and the verdict."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import duckdb
import pyarrow as pa

from tracelab.errors import NoDataError, TracelabError
from tracelab.query import execute, library
from tracelab.study.spec import Asked, Row

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
"""Columns of a row's cells: which cell, then what was published, the study's method on the data at hand, and the figure
as it should be. `status` is that of a run that failed: its figures are those until then. What the SQL of a row does not
give is NULL."""

FIGURES = ("published", "study", "corrected")
ANSWERED, PUBLISHED, CAPTURE = "answered", "published", "needs capture"


@dataclass(frozen=True)
class Answer:
    """A row with its cells and its verdict; `charted` is the library's answer that its chart draws."""

    row: Row
    runs: tuple[str, ...]
    cells: pa.Table
    verdict: str
    charted: Mapping[str, pa.Table] = field(default_factory=dict)


@dataclass(frozen=True)
class State:
    """How far a row is: answered from runs in the store, from published figures alone, or by nothing yet."""

    row: Row
    state: str
    runs: tuple[str, ...]


def states(con: duckdb.DuckDBPyConnection, rows: Sequence[Row], runs: Sequence[str] = ()) -> list[State]:
    """How far each row is."""
    return [State(row, _state(row, found), found) for row in rows for found in [_fitting(con, row, runs)]]


def _state(row: Row, runs: tuple[str, ...]) -> str:
    return ANSWERED if runs else PUBLISHED if row.alone else CAPTURE


def answered(con: duckdb.DuckDBPyConnection, row: Row, runs: Sequence[str] = ()) -> Answer:
    """Answer a row from the runs named, else from all that fit; NoDataError says what to capture, and how."""
    found = _fitting(con, row, runs)
    if not found and not row.alone:
        raise NoDataError(unanswered(row))
    with _laid_out(con, row, found):
        with _alone(con, runs):
            charted = {name: _asked(con, name, asked, found) for name, asked in row.answers.items()}
        statements = [statement.query for statement in con.extract_statements(row.sql)]
        if len(statements) != 2:  # noqa: PLR2004  the cells, and the verdict
            raise TracelabError(f"{row.id}: its file holds {len(statements)} statements; it needs cells and a verdict")
        cells = _cells(con, row, statements[0])
        con.register("cells", cells)
        told = next((told for (told,) in con.execute(statements[1]).fetchall()), None)
    return Answer(row, found, cells, str(told or "The data at hand do not tell."), charted)


def unanswered(row: Row) -> str:
    """What is missing for a row, and the commands that record and store it."""
    return (
        f"{row.id} ({row.title}) has no run that fits; record one with `{row.capture}` and ingest its folder, "
        f"or see `tracelab study show {row.id} --example`"
    )


def _fitting(con: duckdb.DuckDBPyConnection, row: Row, runs: Sequence[str]) -> tuple[str, ...]:
    """The runs that a row is about."""
    if row.fits is None:
        return ()
    found = con.sql(f"select run from recorded where {row.fits} order by run").fetchall()
    return tuple(str(run) for (run,) in found if not runs or run in runs)


@contextmanager
def _laid_out(con: duckdb.DuckDBPyConnection, row: Row, runs: Sequence[str]) -> Iterator[None]:
    """The row's published figures as `published`, its runs as `fitting`; what it registers is gone afterwards."""
    con.execute("create or replace temp table fitting as from recorded where run in (select unnest(?))", [list(runs)])
    con.execute("create or replace temp table published as from figures where row = ?", [row.id])
    try:
        yield
    finally:
        for name in (*row.answers, "cells"):
            con.unregister(name)


@contextmanager
def _alone(con: duckdb.DuckDBPyConnection, runs: Sequence[str]) -> Iterator[None]:
    """Let questions about sweeps see the runs named and no others; without names, all.

    Some of their answers (a crossover, say) name no run to choose by. They all ask the view `cells`, and a temporary
    table of that name hides it.
    """
    if not runs:
        yield
        return
    con.execute("create temp table cells as from cells where run in (select unnest(?))", [list(runs)])
    try:
        yield
    finally:
        con.execute("drop table temp.cells")


def _asked(con: duckdb.DuckDBPyConnection, name: str, asked: Asked, runs: Sequence[str]) -> pa.Table:
    """The library's answer as a relation of that name: rows of the runs that fit, and no others."""
    question = library.find(asked.query)
    values = dict(asked.values)
    if any(param.name == "run" for param in question.params) and len(runs) < 2:  # noqa: PLR2004  only one, or none
        values["run"] = runs[0] if runs else ""
    whole: pa.Table = con.sql(question.sql.rstrip(";"), params=execute.bind(question, values)).to_arrow_table()
    if "run" in whole.column_names:
        con.register("whole", whole)
        whole = con.sql("from whole where run in (select run from fitting)").to_arrow_table()
        con.unregister("whole")
    con.register(name, whole)
    return whole


def _cells(con: duckdb.DuckDBPyConnection, row: Row, sql: str) -> pa.Table:
    """The cells in the order and types of `CELLS`."""
    con.register("given", con.sql(sql).to_arrow_table())
    given = [str(name) for (name, *_) in con.sql("describe given").fetchall()]
    con_columns = ", ".join(f"{name if name in given else 'null'}::{kind} as {name}" for name, kind in CELLS.items())
    if wrong := [name for name in given if name not in CELLS]:
        raise TracelabError(f"{row.id}: its cells have a column {wrong[0]!r}; they can have {', '.join(CELLS)}")
    cells: pa.Table = con.sql(f"select {con_columns} from given").to_arrow_table()
    con.unregister("given")
    return cells
