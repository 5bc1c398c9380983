"""Following one command from the command line to its result takes few modules."""

from pathlib import Path

import pytest

from tests.modules_entered import modules_entered

TRACE = Path(__file__).parents[2] / "data" / "generated" / "generated-4rank-ddp" / "rank0.pt.trace.json.gz"


def test_one_kineto_trace_enters_at_most_25_modules_from_the_command_line_to_parquet(tmp_path: Path) -> None:
    modules = modules_entered("ingest", TRACE, "--store", tmp_path / "lab")
    assert len(modules) <= 25, modules


def test_one_kineto_trace_enters_no_module_of_another_reader(tmp_path: Path) -> None:
    modules = modules_entered("ingest", TRACE, "--store", tmp_path / "lab")
    readers = {Path(module).parts[1] for module in modules if module.startswith("readers/")}
    assert readers == {"base.py", "decompress.py", "diagnostics.py", "kineto"}


@pytest.mark.parametrize("name", ["kernel_summary", "gpu_breakdown"])
def test_a_query_with_a_plot_enters_at_most_22_modules(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))  # empty, so that the macros are defined, too
    store = tmp_path / "lab"
    modules_entered("ingest", TRACE, "--store", store)
    modules = modules_entered("query", name, "--store", store, "--plot", tmp_path / "plot.svg")
    assert len(modules) <= 22, modules
