"""The notebook of the guide runs from its first cell to its last, and each cell shows what its text announces."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from tests.report.few_queries import report_only
from tracelab.errors import TracelabError
from tracelab.output.result import Result
from tracelab.report.page import Page
from tracelab.report.summary.text import Summaries

NOTEBOOK = Path(__file__).parents[2] / "docs" / "guides" / "first-look.ipynb"


def run_cell(source: str, names: dict[str, Any]) -> object:
    """Run a cell as Jupyter does: return the value of its last expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)  # noqa: S102  the project's own notebook
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names) if isinstance(last, ast.Expr) else None  # noqa: S307


@pytest.fixture(scope="module")
def shown() -> list[Any]:
    cells = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
    with pytest.MonkeyPatch.context() as patch, report_only("gpu_breakdown", "straggler_causes"):
        patch.chdir(NOTEBOOK.parent)
        names: dict[str, Any] = {}
        return [run_cell("".join(cell["source"]), names) for cell in cells if cell["cell_type"] == "code"]


def test_each_cell_shows_something_in_a_notebook(shown: list[Any]) -> None:
    import polars

    assert [type(each) for each in shown] == [Result, Summaries, polars.DataFrame, Figure, Result, Page]
    ingested, summaries, causes, figure, sums, page = shown
    assert {row["status"] for row in ingested.to_pylist()} == {"stored"}
    assert "Rank 2 is late" in repr(summaries)
    assert causes.row(0)[:3] == (2, "compute", "gemm")
    assert figure.axes
    assert sums.num_rows == 8
    assert page._repr_html_().startswith("<iframe ")


def test_a_page_is_saved_once(shown: list[Any], tmp_path: Path) -> None:
    shown[-1].save(tmp_path / "r.html")
    assert (tmp_path / "r.html").read_text("utf-8") == shown[-1]
    with pytest.raises(TracelabError, match=r"r\.html exists"):
        shown[-1].save(tmp_path / "r.html")
