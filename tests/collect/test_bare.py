"""Collecting works from a bare checkout: no other package of tracelab's is there, and help imports no torch."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.needs import needs_torch
from tracelab.collect.settings import Settings, as_json, command_words, from_json, non_default_options, recorded_options
from tracelab.collect.workloads import find_workload, list_workloads
from tracelab.errors import UsageError

CHECKOUT = Path(__file__).parents[2]
ABSENT = ("duckdb", "polars", "pyarrow", "msgspec", "rich", "isal", "matplotlib", "adbc_driver_sqlite")
BLOCKED = f"""
import sys
for name in {ABSENT!r}:
    sys.modules[name] = None  # importing it raises ImportError
from tracelab.__main__ import run
"""


def bare(*arguments: str, absent: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """`python -m tracelab ARGS…` where only Python, click and torch can be imported."""
    more = "".join(f"sys.modules[{name!r}] = None\n" for name in absent)
    script = BLOCKED.replace("from tracelab", more + "from tracelab").replace(
        "tracelab.__main__ import run", "tracelab.cli import main"
    )
    environment = os.environ | {"PYTHONPATH": str(CHECKOUT / "src")}
    command = [sys.executable, "-c", f"{script}\nmain({list(arguments)!r}, prog_name='tracelab')"]
    return subprocess.run(command, capture_output=True, check=False, text=True, env=environment)


@pytest.mark.parametrize("arguments", [["collect", "--help"], ["collect", "train", "--help"], ["--help"]])
def test_help_needs_click_alone(arguments: list[str]) -> None:
    done = bare(*arguments, absent=("torch", "numpy"))
    assert (done.returncode, done.stderr, "Usage: tracelab" in done.stdout) == (0, "", True)


@pytest.mark.parametrize("arguments", [["ingest", "."], ["query", "kernel_summary"], ["sql", "select 1"]])
def test_a_missing_package_is_reported_in_one_sentence(arguments: list[str]) -> None:
    done = bare(*arguments)
    (sentence,) = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (1, "")
    assert sentence.endswith("is not installed, but this command needs it; run `pip install .` in the checkout")


def test_every_module_of_collecting_can_be_imported_without_the_others() -> None:
    modules = sorted(
        ".".join(path.relative_to(CHECKOUT / "src").with_suffix("").parts)
        for path in (CHECKOUT / "src" / "tracelab" / "collect").rglob("*.py")
        if path.name != "__init__.py" and path.parent.name != "callbacks"  # they import the library they are for
    )
    blocked = "".join(f"sys.modules[{name!r}] = None\n" for name in (*ABSENT, "torch", "numpy"))
    script = f"import sys, importlib\n{blocked}for name in {modules!r}: importlib.import_module(name)"
    environment = os.environ | {"PYTHONPATH": str(CHECKOUT / "src")}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False, text=True, env=environment)
    assert (done.returncode, done.stderr) == (0, "")


@needs_torch
def test_a_workload_trains_where_nothing_else_is_installed(tmp_path: Path) -> None:
    path = tmp_path / "small.py"
    settings = "from dataclasses import dataclass\n\n\n@dataclass(frozen=True)\nclass Settings:\n    pass\n"
    path.write_text(f"{settings}\n\ndef workload(settings):\n    return lambda: None\n")
    done = bare("collect", "train", str(path), "--device", "cpu", "--steps", "1", "--out", str(tmp_path), "--run", "r")
    folder = tmp_path / "r"
    last = f"{folder}: ok; 1 step taken; next: tracelab ingest {folder}"
    assert (done.returncode, done.stderr.splitlines()[-1]) == (0, last)


def test_the_workloads_are_the_files_that_have_one() -> None:
    collectors = Path(__file__).parents[2] / "collectors"
    files = {path.stem for path in collectors.glob("*.py") if "\ndef workload(" in path.read_text("utf-8")}
    assert len(files) >= 10
    assert (set(list_workloads()), all(each.about for each in list_workloads().values())) == (files, True)


def test_a_misspelt_workload_is_answered_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="no workload 'transfomer'; did you mean 'transformer'"):
        find_workload("transfomer")


@pytest.mark.parametrize("workload", list_workloads())
def test_a_workload_is_short(workload: str) -> None:
    assert len(find_workload(workload).path.read_text("utf-8").splitlines()) <= 70


def test_settings_survive_the_way_to_another_process() -> None:
    asked = Settings("gemm", set={"size": "8"}, metrics=("a", "b"), out=Path("x"), learning_rate=0.1)
    assert from_json(as_json(asked)) == asked


def test_the_command_line_of_a_run_holds_what_was_changed_and_no_folders() -> None:
    asked = Settings("gemm", set={"size": "8"}, data_root=Path("/home/someone/cifar"), pin_memory=True, batch_size=8)
    assert command_words(asked) == ["gemm", "--set", "size=8", "--data-root", "cifar", "--pin-memory"]
    assert non_default_options(asked, leaving_out=("set", "data_root")) == {"pin_memory": True}


@pytest.mark.parametrize(("model", "name"), [("/home/someone/llama", "llama"), ("meta/llama", "meta/llama")])
def test_a_model_s_folder_is_not_written_down(model: str, name: str) -> None:
    settings = Settings("huggingface", model=model)
    assert command_words(settings) == ["huggingface", "--model", name]
    assert recorded_options(settings)["model"] == name
