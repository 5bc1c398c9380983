"""Rows asked in tests: of literal tables, or of a row's example."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.build import build_store
from tracelab.study import example, session, spec
from tracelab.study.evaluate import Answer, evaluate_row

Cell = Mapping[str, object]
Tables = Mapping[str, Sequence[Mapping[str, object]]]


def of_tables(row: str, folder: Path, tables: Tables, *runs: str) -> Answer:
    with session.open_session(build_store(folder / "lab", tables)) as con:
        return evaluate_row(con, spec.find(row), runs)


def of_example(row: str) -> Answer:
    with example.example_store([spec.find(row)]) as store, session.open_session(store) as con:
        return evaluate_row(con, spec.find(row))


def cells(answer: Answer, **wanted: object) -> list[Cell]:
    found = answer.cells.to_pylist()
    return [cell for cell in found if all(cell[name] == value for name, value in wanted.items())]
