"""Each walk of CONTRIBUTING.md works as written: adding a query, a reader and a workload."""

import contextlib
import gzip
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.needs import needs_torch
from tracelab.cli import main

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
COPIED = ("src", "queries", "collectors", "tests/unit", "tests/golden/*.py", "tests/*.py", "pyproject.toml", "data/cpu")


def block(section: str, language: str, number: int = 0) -> str:
    """Return a fenced block of one section of CONTRIBUTING.md."""
    text = PAGE.split(f"## {section}\n")[1].split("\n## ")[0]
    blocks: list[str] = re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)
    assert len(blocks) > number, f"CONTRIBUTING.md: section {section!r} has no {language} block {number}"
    return blocks[number]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Copy what a contributor edits and runs."""
    return copy_checkout(tmp_path)


@pytest.fixture(scope="module")
def checkout_with_reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy what a contributor edits, and add the reader of CONTRIBUTING.md."""
    checkout = copy_checkout(tmp_path_factory.mktemp("reader"))
    add_reader(checkout, block("Add a reader", "python"))
    return checkout


def copy_checkout(folder: Path) -> Path:
    """Copy what a contributor edits and runs."""
    for pattern in COPIED:
        for path in ROOT.glob(pattern):
            target = folder / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            if path.is_dir():
                shutil.copytree(path, target, dirs_exist_ok=True)  # with the compiled modules, which stay valid
            else:
                shutil.copy(path, target)
    return folder


def run(checkout: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a Python module in the copied checkout."""
    environment = os.environ | {"PYTHONPATH": f"{checkout / 'src'}{os.pathsep}{checkout}", "NO_COLOR": "1"}
    return subprocess.run(
        [sys.executable, "-m", *command], cwd=checkout, env=environment, capture_output=True, text=True, check=False
    )


def test_a_query_is_added_with_its_case(checkout: Path) -> None:
    (checkout / "queries/launch_gaps.sql").write_text(block("Add a query", "sql"))
    case = checkout / "tests/golden/launch_gaps/exactly_long_enough"
    case.mkdir(parents=True)
    (case / "case.toml").write_text(block("Add a query", "toml"))
    (case / "kernels.csv").write_text(block("Add a query", "csv", 0))
    (case / "expected.csv").write_text(block("Add a query", "csv", 1))
    result = run(
        checkout, "pytest", "-rA", "-p", "no:cacheprovider", "-k", "launch_gaps",
        "tests/golden", "tests/unit/test_query_headers.py",
    )  # fmt: skip
    assert result.returncode == 0, f"the query of CONTRIBUTING.md fails the library's tests:\n{result.stdout}"
    assert "launch_gaps" in result.stdout, f"no test ran the case of CONTRIBUTING.md:\n{result.stdout}"


def test_a_reader_is_added(checkout_with_reader: Path) -> None:
    checkout = checkout_with_reader
    ingest = run(checkout, "tracelab", "ingest", "run7.kernels.csv", "--store", "lab")
    assert (ingest.returncode, "2 kernels" in ingest.stderr) == (0, True), ingest.stderr
    assert "Skipped 1 line without a valid start and duration, the first: copy,0,7,late,3.000" in ingest.stderr
    query = run(checkout, "tracelab", "query", "kernel_summary", "--store", "lab", "--format", "csv")
    assert "gemm" in query.stdout and "70250" in query.stdout, query.stdout + query.stderr


def test_the_reader_follows_the_rules_of_style_and_types(checkout_with_reader: Path) -> None:
    cache = ROOT / ".mypy_cache"
    if cache.exists():  # what the check of all types has read: without it, mypy takes five seconds
        shutil.copytree(cache, checkout_with_reader / cache.name)
    changed = ("src/tracelab/readers/kernel_log.py", "src/tracelab/readers/base.py")
    for command in (("ruff", "check", *changed), ("ruff", "format", "--check", *changed), ("mypy", changed[0])):
        result = run(checkout_with_reader, *command)
        assert result.returncode == 0, f"{' '.join(command)}\n{result.stdout}{result.stderr}"


def test_the_reader_counts_a_damaged_line(checkout_with_reader: Path) -> None:
    lines = ["gemm,0,7,60.0", "gemm,0,7,Infinity,1", "gemm,0,7,\udcff,1", "gemm,0,7,1e17,1", "gemm,0,7,9e999998,1"]
    lines += ["gemm,99999999999,7,1,1", "gemm,0,7,9223372036854775,1", "gemm,0,7,1,-2"]
    for number, line in enumerate(lines):
        damaged = (block("Add a reader", "text") + line).encode(errors="surrogateescape")
        (checkout_with_reader / f"damaged{number}.kernels.csv").write_bytes(damaged)
    names = [f"damaged{number}.kernels.csv" for number in range(len(lines))]
    ingest = run(checkout_with_reader, "tracelab", "ingest", *names, "--store", "damaged")
    assert ingest.stderr.count("Skipped 2 lines") == len(lines), ingest.stderr


def test_the_reader_reads_a_compressed_log_and_skips_lines_of_other_columns(checkout_with_reader: Path) -> None:
    log = block("Add a reader", "text")
    (checkout_with_reader / "packed.kernels.csv").write_bytes(gzip.compress(log.encode()))
    (checkout_with_reader / "other.kernels.csv").write_text(log.replace("name,", "nam,"))
    ingest = run(
        checkout_with_reader, "tracelab", "ingest", "packed.kernels.csv", "other.kernels.csv", "--store", "packed"
    )
    assert "2 kernels" in ingest.stderr and "Skipped 3 lines" in ingest.stderr, ingest.stderr
    assert "Traceback" not in ingest.stderr


def test_a_reader_with_a_wrong_column_gets_its_name(checkout: Path) -> None:
    add_reader(checkout, block("Add a reader", "python").replace('"dur_ns":', '"duration_ns":'))
    ingest = run(checkout, "tracelab", "ingest", "run7.kernels.csv", "--store", "lab")
    assert ingest.returncode == 1, ingest.stderr
    for part in ("kernel-log-1", "kernels.duration_ns", "schema.py"):
        assert part in ingest.stderr, f"the error does not name {part}: {ingest.stderr}"


def add_reader(checkout: Path, source: str) -> None:
    """Write the reader, its entry in the list of readers, and the log of CONTRIBUTING.md."""
    (checkout / "src/tracelab/readers/kernel_log.py").write_text(source)
    (checkout / "run7.kernels.csv").write_text(block("Add a reader", "text"))
    changes = block("Add a reader", "diff")
    (removed,) = re.findall(r"^-(.*)$", changes, re.MULTILINE)
    added = "\n".join(re.findall(r"^\+(.*)$", changes, re.MULTILINE))
    base = checkout / "src/tracelab/readers/base.py"
    text = base.read_text()
    assert text.count(removed) == 1, f"CONTRIBUTING.md shows a line that base.py does not have: {removed}"
    base.write_text(text.replace(removed, added))


@needs_torch
@pytest.mark.usefixtures("_forked_ranks")
def test_a_workload_is_added_and_recorded(tmp_path: Path) -> None:
    (tmp_path / "softmax.py").write_text(block("Add a workload", "python"))
    commands = re.findall(
        r"^    tracelab (collect train softmax.*|ingest runs.*|query op_summary.*)$", PAGE, re.MULTILINE
    )
    assert len(commands) == 3, "CONTRIBUTING.md no longer shows the three commands of a workload"
    with contextlib.chdir(tmp_path):
        for command in commands:
            result = CliRunner().invoke(main, command.split())
            assert result.exit_code == 0, f"tracelab {command}\n{result.output}"
    assert "aten::softmax" in result.stdout, result.stdout
