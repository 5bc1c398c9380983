"""Every folder <query>/<case> is a test: rows in as CSV, the answer out as CSV, and the rule it shows in case.toml.

Cases of a question in the definition of another tool stand in like/<tool>/<query>/<case>.
"""

import math
from pathlib import Path

import pytest

from tests.build import build_store
from tests.golden import cases
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


def _question(case: Path) -> spec.Query:
    folder = case.parent
    return library.find(folder.name, folder.parent.name if folder.parent.parent.name == "like" else None)


@pytest.mark.parametrize("case", cases.CASES, ids=lambda case: "-".join(case.relative_to(cases.FOLDER).parts))
def test_case(case: Path, tmp_path: Path) -> None:
    answer = Lab(build_store(tmp_path / "lab", cases.tables(case))).run_query(_question(case), cases.params(case))
    found = [answer.column_names, *([_cell(value) for value in row.values()] for row in answer.to_pylist())]
    assert found == cases.expected(case)
