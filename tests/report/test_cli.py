"""`tracelab report`: where the page goes, and what is refused."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import tracelab
from tests.report.few_queries import report_only
from tests.report.reading import column, read
from tracelab.cli import main
from tracelab.errors import NoDataError, UsageError

Run = Callable[..., Result]


@pytest.fixture
def run(lab: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: CliRunner().invoke(main, ["report", "--store", str(lab), *arguments])


def test_a_file_that_exists_is_left_alone_without_force(run: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.html").write_text("mine")
    result = run("-o", "mine.html")
    assert (result.exit_code, result.stderr) == (1, "tracelab: mine.html exists; add --force to overwrite it\n")
    assert (tmp_path / "mine.html").read_text() == "mine"


def test_only_the_chosen_run_is_in_it(run: Run, tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text("an older one")
    with report_only("gpu_breakdown", "run_difference"):
        result = run("--run", "f*t", "--force")  # a pattern, of which only `first` is one
    assert (result.exit_code, result.stderr) == (0, "Wrote report.html\n")
    found = read((tmp_path / "report.html").read_text("utf-8"))
    assert "tracelab query gpu_breakdown --run first --format csv" in found.texts["gpu_breakdown"]
    assert "run_difference" not in found.tables
    assert set(column(found, "gpu_breakdown", "run")) == {"first"}


def test_a_dash_is_stdout_and_the_same_store_gives_the_same_bytes(run: Run, page: str) -> None:
    result = run("-o", "-")
    assert (result.exit_code, result.stdout) == (0, page)


def test_stdout_cannot_be_opened(run: Run) -> None:
    result = run("-o", "-", "--open")
    assert (result.exit_code, result.stderr) == (2, "tracelab: --open needs a file; omit -o -\n")


def test_an_unknown_run_is_no_data(run: Run, tmp_path: Path) -> None:
    result = run("--run", "thrid")
    assert (result.exit_code, result.stdout) == (3, "")
    assert "the store has no run 'thrid'" in result.stderr
    assert not list(tmp_path.glob("*.html"))


def test_a_path_in_place_of_a_run_is_refused_with_what_writes_a_file(lab: Path) -> None:
    for method in (tracelab.open(lab).report, tracelab.open(lab).summary):
        with pytest.raises(
            UsageError, match=r"Path\('page.html'\) is no name of a run; .* lab.report\(\).save\(PATH\)"
        ):
            method(Path("page.html"))  # type: ignore[operator]


def test_the_name_of_a_page_in_place_of_a_run_is_refused_with_what_writes_it(lab: Path) -> None:
    with pytest.raises(UsageError, match=r"'page.html' is the name .* lab.report\(\).save\('page.html'\)"):
        tracelab.open(lab).report("page.html")


@pytest.mark.parametrize("run", ["thrid", ["first", "thrid"]])
def test_python_takes_runs_by_keyword_as_by_position(lab: Path, run: str | list[str]) -> None:
    for method in (tracelab.open(lab).report, tracelab.open(lab).summary):
        with pytest.raises(NoDataError, match="the store has no run 'thrid'"):
            method(run=run)
