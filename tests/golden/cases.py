"""What a golden case says: its rows, and what is asked of them."""

import csv
import tomllib
from datetime import datetime
from pathlib import Path
from typing import Any

from tracelab import schema
from tracelab.query.spec import Value

FOLDER = Path(__file__).parent
CASES = sorted(path.parent for path in [*FOLDER.glob("*/*/case.toml"), *FOLDER.glob("like/*/*/*/case.toml")])
_PARSERS = {"int32": int, "int64": int, "double": float, "text": str, "bool": lambda text: text == "true"}
_PARSERS["timestamp"] = datetime.fromisoformat
_PARSERS["tags"] = lambda text: [tuple(pair.split("=", 1)) for pair in text.split(";")]


def tables(case: Path) -> dict[str, list[dict[str, object]]]:
    """The rows of each table."""
    return {path.stem: _rows(path) for path in case.glob("*.csv") if path.stem != "expected"}


def params(case: Path) -> dict[str, Value]:
    """The values that are asked with."""
    found: dict[str, Value] = tomllib.loads((case / "case.toml").read_text("utf-8")).get("params", {})
    return found


def scope(case: Path) -> dict[str, Any]:
    """The conditions of the scope that the answer is of; none for the whole recording."""
    conditions: dict[str, Any] = tomllib.loads((case / "case.toml").read_text("utf-8")).get("scope", {})
    return conditions


def expected(case: Path) -> list[list[str]]:
    """The answer, the names of its columns first; an empty cell is NULL."""
    with (case / "expected.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def _rows(path: Path) -> list[dict[str, object]]:
    """The rows of a table; an empty cell is NULL."""
    types = {column.name: column.type for column in schema.BY_NAME[path.stem].columns}
    with path.open(encoding="utf-8", newline="") as file:
        return [
            {
                name: _PARSERS[types[name]](cell) if cell and name != "source" else cell or None
                for name, cell in row.items()
            }
            for row in csv.DictReader(file)
        ]
