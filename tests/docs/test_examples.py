"""What README.md and CONTRIBUTING.md show is what happens: commands print it, figures are so, the example runs."""

import fcntl
import json
import os
import pty
import re
import shlex
import shutil
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from tracelab.client import Lab
from tracelab.ingest import pipeline

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
WIDTH = 100

CASE = ("case.toml", "kernels.csv", "expected.csv")  # as CONTRIBUTING shows them

CONSOLE = [
    (command, answer.rstrip("\n"))
    for block in re.findall(r"```console\n(.*?)```", README, re.DOTALL)
    for command, answer in re.findall(r"^\$ (.+)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
    if not command.startswith("tracelab ingest")
]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    store = tmp_path_factory.mktemp("readme") / "lab"
    generated = ROOT / "data" / "generated"
    pipeline.ingest([ROOT / "data" / "cpu", generated / "generated-4rank-ddp", generated / "ncu-forward"], store=store)
    return Lab(store)


def on_a_terminal(command: list[str], store: Path) -> str:
    """What the command prints on a terminal of the width that the documents have."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, WIDTH, 0, 0))
    environment = os.environ | {"NO_COLOR": "1", "COLUMNS": str(WIDTH), "TRACELAB_STORE": str(store)}
    printed = b""
    with subprocess.Popen(command, stdout=theirs, stdin=subprocess.DEVNULL, env=environment):
        os.close(theirs)
        try:
            while chunk := os.read(ours, 65536):
                printed += chunk
        except OSError:  # Linux's way to say that the other side is closed
            pass
    os.close(ours)
    return printed.decode().replace("\r\n", "\n")


@pytest.mark.parametrize(("command", "answer"), CONSOLE, ids=[command for command, _ in CONSOLE])
def test_a_command_of_the_readme_prints_what_the_readme_says(lab: Lab, command: str, answer: str) -> None:
    printed = on_a_terminal([sys.executable, "-m", *shlex.split(command)], lab.store)
    if answer.endswith("\n…"):
        answer = answer.removesuffix("…")
        printed = printed[: len(answer)]
    assert printed.rstrip("\n") == answer.rstrip("\n")


def test_the_kernels_of_the_readme_overlap_as_doubles_only(tmp_path: Path) -> None:
    (text,) = re.findall(r"```json\n(.*?)```", README, re.DOTALL)
    first, second = json.loads(text)["traceEvents"]
    (tmp_path / "trace.json").write_text(text)
    pipeline.ingest([tmp_path / "trace.json"], store=tmp_path / "lab")
    (row,) = Lab(tmp_path / "lab").query("kernel_concurrency").to_pylist()
    assert (first["ts"] + first["dur"] - second["ts"], row["concurrent_ns"]) == (0.25, 0)


def test_the_denominators_of_the_readme(lab: Lab) -> None:
    told = re.findall(r"^\| (?:all|the (?:time|window)).* \| ([\d,]+) ns \| ([\d.]+) % \|$", README, re.MULTILINE)
    (row,) = (row for row in lab.query("nccl_share", rank=0).to_pylist() if row["collective"] == "broadcast")
    names = ("gpu_activity", "kernel_sum", "kernel_busy", "window")
    assert told == [(f"{row[f'{name}_ns']:,}", f"{row[f'of_{name}_ratio'] * 100:.1f}") for name in names]


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "data/README.md"])
def test_a_link_leads_somewhere(document: str) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", (ROOT / document).read_text("utf-8"))
    assert [link for link in links if not (ROOT / document).parent.joinpath(link).exists()] == []


def test_the_example_query_runs(lab: Lab, tmp_path: Path) -> None:
    (text,) = re.findall(r"```sql\n(.*?)```", CONTRIBUTING, re.DOTALL)
    (tmp_path / "launch_gaps.sql").write_text(text)
    answer = lab.query(str(tmp_path / "launch_gaps.sql"), shortest_ns=5000)
    assert {row["stream"] for row in answer.to_pylist()} == {7, 20, 28}


def test_the_example_query_and_its_case_pass_the_tests_of_the_library(tmp_path: Path) -> None:
    case = tmp_path / "tests" / "golden" / "launch_gaps" / "exactly_long_enough"
    for folder in ("src", "queries", "tests/unit"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    case.mkdir(parents=True)
    for file in ("tests/__init__.py", "tests/build.py", "pyproject.toml"):
        shutil.copy(ROOT / file, tmp_path / file)
    for path in (ROOT / "tests" / "golden").glob("*.py"):
        shutil.copy(path, tmp_path / "tests" / "golden")
    blocks = re.findall(r"```(sql|toml|csv)\n(.*?)```", CONTRIBUTING, re.DOTALL)
    files = (tmp_path / "queries" / "launch_gaps.sql", *(case / name for name in CASE))
    for path, (_, text) in zip(files, blocks, strict=True):
        path.write_text(text)
    wanted = "launch_gaps or one_name_has_one_meaning or no_parameter_takes"
    paths = ["tests/unit/test_query_headers.py", "tests/golden/test_golden.py"]
    tests = [sys.executable, "-m", "pytest", "-rp", "-p", "no:cacheprovider", "-k", wanted, *paths]
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "src")}
    ran = subprocess.run(tests, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (ran.returncode, "test_case[launch_gaps-exactly_long_enough]" in ran.stdout) == (0, True), ran.stdout


def test_the_folders_that_are_named_exist() -> None:
    named = re.findall(r"^\| `([^|]+)` \|", CONTRIBUTING, re.MULTILINE)
    folders = [name for cell in named for name in re.findall(r"[\w./]+", cell) if name.endswith("/") or "/" in name]
    assert [name for name in folders if not (ROOT / name).exists()] == []
