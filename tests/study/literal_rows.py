"""Rows of studies evaluated on literal runs in memory, or on a row's own example."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache

import duckdb

from tests.memory import MemoryStore
from tracelab.study import example, session, spec
from tracelab.study.evaluate import Answer, evaluate_row, row_states

Cell = Mapping[str, object]
Tables = Mapping[str, Sequence[Mapping[str, object]]]
Run = dict[str, object]
Rows = dict[str, list[Run]]

RUN: Run = {"sweep": "s", "model": "net", "world_size": 1, "status": "ok", "gpus": 1, "batch_size": 64}
K80: Run = {"gpu": "Tesla K80", "gpus": 4, "parallelism": "dp"}
P40: Run = K80 | {"gpu": "Tesla P40"}


@contextmanager
def open_rows(tables: Tables) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a session of studies over these rows."""
    con = _memory().filled(tables).con
    session.create_tables(con)
    yield con


@cache
def _memory() -> MemoryStore:
    return MemoryStore()


def evaluate(row: str, tables: Tables | None = None, *runs: str, changes: Sequence[str] = ()) -> Answer:
    """Evaluate a row on these tables or these runs of them, after SQL that changes what was published."""
    with open_rows(tables or {}) as con:
        for change in changes:
            con.execute(change)
        return evaluate_row(con, spec.find(row), runs)


def evaluate_example(row: str) -> Answer:
    """Evaluate a row on the runs that it names as its example."""
    with example.example_store([spec.find(row)]) as store, session.open_session(store, [spec.find(row)]) as con:
        return evaluate_row(con, spec.find(row))


def row_state(row: str, tables: Tables) -> tuple[str, int]:
    """Return the state of a row and how many runs fit it."""
    with open_rows(tables) as con:
        (found,) = row_states(con, [spec.find(row)])
    return found.state, len(found.runs)


def cells(answer: Answer, **wanted: object) -> list[Cell]:
    """Return the cells of an answer that have these values."""
    return [cell for cell in answer.cells.to_pylist() if all(cell[name] == value for name, value in wanted.items())]


def trained(run: Run, step_ns: int = 1000, **step: object) -> Rows:
    """Return a run of two training steps."""
    own = {"run": run["run"]}
    steps = [
        own | {"phase": "train", "epoch": 0, "start_ns": 0, "dur_ns": step_ns, "samples": run["batch_size"]} | step
    ]
    return {"runs": [dict(run)], "steps": [each | {"step": place} for each in steps for place in (0, 1)]}


def join(*parts: Tables) -> Tables:
    """Return the rows of several runs as one set of tables."""
    names = {name for part in parts for name in part}
    return {name: [row for part in parts for row in part.get(name, [])] for name in sorted(names)}
