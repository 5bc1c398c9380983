"""Every folder <query>/<case> is a test: rows in as CSV, the answer out as CSV, and the rule it shows in case.toml.

Cases of a query in the definition of another tool are in like/<tool>/<query>/<case>. The first case of each query goes
through Parquet files, the others are rows in memory.
"""

import math
from pathlib import Path

import pytest

from tests.build import build_store
from tests.golden import cases
from tests.memory import MemoryStore
from tracelab.client import Lab
from tracelab.query import library, spec


def _cell(value: object) -> str:
    match value:
        case None:
            return ""
        case float():
            return f"{value:.6g}" if math.isfinite(value) else str(value)
        case _:
            return str(value)


def _query(case: Path) -> spec.Query:
    folder = case.parent
    return library.find(folder.name, folder.parent.name if folder.parent.parent.name == "like" else None)


def _is_first(case: Path) -> bool:
    return next(each for each in cases.CASES if each.parent == case.parent) == case


@pytest.mark.parametrize("case", cases.CASES, ids=lambda case: "-".join(case.relative_to(cases.FOLDER).parts))
def test_case(case: Path, tmp_path: Path, memory: MemoryStore) -> None:
    query, tables, values = _query(case), cases.tables(case), cases.params(case)
    if _is_first(case):
        answer = Lab(build_store(tmp_path / "lab", tables)).run_query(query, values)
    else:
        answer = memory.filled(tables).run_query(query, values)
    cells = [answer.column_names, *([_cell(value) for value in row.values()] for row in answer.to_pylist())]
    assert cells == cases.expected(case)


def test_every_case_has_a_rule() -> None:
    folders = {path.parent for path in cases.FOLDER.rglob("*.csv")}
    assert not sorted(folders - set(cases.CASES)), "add case.toml with a rule to these folders"
