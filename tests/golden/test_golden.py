"""Every folder <query>/<case> is a test: rows in as CSV, the answer out as CSV, and the rule it shows in case.toml.

Cases of a query in the definition of another tool are in like/<tool>/<query>/<case>. The first case of each query goes
through Parquet files and is planned for any number of rows, the others are rows in memory, planned for few. Cases of a
query with the same parameters, whose rows name no run, are runs of one store, since to plan a query takes longer than
to run it on such rows.
"""

import math
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pytest

from tests.build import build_store
from tests.golden import cases
from tests.memory import MemoryStore
from tracelab.client import Lab
from tracelab.query import library, spec
from tracelab.resources import QUERIES

Tables = dict[str, list[dict[str, object]]]
READ_OTHER_RUNS = {"graph_replays", "roofline"}
"""Queries that take what was recorded in other runs of the store, where a run has not recorded it."""


def _cell(value: object) -> str:
    match value:
        case None:
            return ""
        case float():
            return f"{value:.6g}" if math.isfinite(value) else str(value)
        case _:
            return str(value)


def _cells(answer: pa.Table, run: str | None) -> list[list[str]]:
    """Return the names and cells of an answer; of one to several cases the rows of a run, under the default name."""
    rows = answer.to_pylist()
    if run is not None:
        rows = [row | {"run": "r"} for row in rows if row["run"] == run]
    return [answer.column_names, *([_cell(value) for value in row.values()] for row in rows)]


def _name(case: Path) -> str:
    return "-".join(case.relative_to(cases.FOLDER).parts)


def _query(case: Path) -> spec.Query:
    folder = case.parent
    return library.find(folder.name, folder.parent.name if folder.parent.parent.name == "like" else None)


def _is_first(case: Path) -> bool:
    return next(each for each in cases.CASES if each.parent == case.parent) == case


def _is_alone(case: Path, tables: Tables) -> bool:
    return (
        case.parent.name in READ_OTHER_RUNS
        or bool(cases.scope(case))
        or any("run" in row for rows in tables.values() for row in rows)
    )


@dataclass
class _Answers:
    """The answers to all cases, computed when a case first needs one."""

    memory: MemoryStore
    folder: Path
    _known: dict[tuple[Path, str], pa.Table] = field(default_factory=dict)

    def to(self, case: Path) -> list[list[str]]:
        tables, values = cases.tables(case), cases.params(case)
        if _is_alone(case, tables):
            return _cells(self._run([case], tables), None)
        key = (case.parent, repr(values))
        if key not in self._known:
            siblings = (each for each in cases.CASES if each.parent == case.parent)
            alike = [each for each in siblings if cases.params(each) == values]
            together = {each: rows for each in alike if not _is_alone(each, rows := cases.tables(each))}
            merged: Tables = {}
            for each, rows in together.items():
                for table, listed in rows.items():
                    merged.setdefault(table, []).extend(row | {"run": each.name} for row in listed)
            self._known[key] = self._run(list(together), merged)
        return _cells(self._known[key], case.name)

    def _run(self, answered: list[Path], tables: Tables) -> pa.Table:
        case = answered[0]
        query, values = _query(case), cases.params(case)
        if any(map(_is_first, answered)) or cases.scope(case):
            store = build_store(self.folder / _name(case), tables, trace_bytes=None)
            lab = Lab(store).scoped(**cases.scope(case))
            return replace(lab, scope=lab.row_mask(query, values)).run_query(query, values)
        return self.memory.filled(tables).run_query(query, values)


@pytest.fixture(scope="module")
def answers(memory: MemoryStore, tmp_path_factory: pytest.TempPathFactory) -> _Answers:
    return _Answers(memory, tmp_path_factory.mktemp("golden"))


@pytest.mark.parametrize("case", cases.CASES, ids=_name)
def test_case(case: Path, answers: _Answers) -> None:
    assert answers.to(case) == cases.expected(case)


def test_every_case_has_a_rule() -> None:
    folders = {path.parent for path in cases.FOLDER.rglob("*.csv")}
    assert not sorted(folders - set(cases.CASES)), "add case.toml with a rule to these folders"


def test_every_query_has_a_case() -> None:
    with_cases = {case.parent.relative_to(cases.FOLDER) for case in cases.CASES}
    files = {path.relative_to(QUERIES).with_suffix("") for path in QUERIES.glob("*.sql")}
    files |= {path.relative_to(QUERIES).with_suffix("") for path in QUERIES.glob("like/*/*.sql")}
    assert not sorted(map(str, files - with_cases)), "add a folder tests/golden/<query>/<case> for these queries"
