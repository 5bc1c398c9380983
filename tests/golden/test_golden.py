"""Every folder <query>/<case> is a test: rows in as CSV, the answer out as CSV, and the rule it shows in case.toml.

Cases of a question in the definition of another tool stand in like/<tool>/<query>/<case>.
"""

import csv
import math
import tomllib
from datetime import datetime
from pathlib import Path

import pytest

from tests.build import build_store
from tracelab import query, schema
from tracelab.lab import Lab

FOLDER = Path(__file__).parent
CASES = sorted(path.parent for path in [*FOLDER.glob("*/*/case.toml"), *FOLDER.glob("like/*/*/*/case.toml")])
PARSERS = {"int32": int, "int64": int, "double": float, "text": str, "bool": lambda text: text == "true"}
PARSERS["timestamp"] = datetime.fromisoformat
PARSERS["tags"] = lambda text: [tuple(pair.split("=", 1)) for pair in text.split(";")]


def _rows(path: Path) -> list[dict[str, object]]:
    """The rows of a table; an empty cell is NULL."""
    types = {column.name: column.type for column in schema.BY_NAME[path.stem].columns}
    with path.open(encoding="utf-8", newline="") as file:
        return [
            {
                name: PARSERS[types[name]](cell) if cell and name != "source" else cell or None
                for name, cell in row.items()
            }
            for row in csv.DictReader(file)
        ]


def _cell(value: object) -> str:
    match value:
        case None:
            return ""
        case float():
            return f"{value:.6g}" if math.isfinite(value) else str(value)
        case _:
            return str(value)


def _question(case: Path) -> query.Query:
    folder = case.parent
    return query.find(folder.name, folder.parent.name if folder.parent.parent.name == "like" else None)


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(case.relative_to(FOLDER).parts))
def test_case(case: Path, tmp_path: Path) -> None:
    tables = {path.stem: _rows(path) for path in case.glob("*.csv") if path.stem != "expected"}
    params = tomllib.loads((case / "case.toml").read_text(encoding="utf-8")).get("params", {})
    answer = Lab(build_store(tmp_path / "lab", tables)).ask(_question(case), params)
    with (case / "expected.csv").open(encoding="utf-8", newline="") as file:
        expected = list(csv.reader(file))
    assert [answer.column_names, *([_cell(value) for value in row.values()] for row in answer.to_pylist())] == expected
