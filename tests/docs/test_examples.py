"""Commands of README.md print what it shows, and figures of the pages are those of the data."""

import fcntl
import json
import os
import pty
import re
import shlex
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
EXACT_TIME = (ROOT / "docs/concepts/exact-time.md").read_text("utf-8")
DENOMINATORS = (ROOT / "docs/concepts/denominators.md").read_text("utf-8")
WIDTH = 100

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
    """Return what the command prints on a terminal of the pages' width."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, WIDTH, 0, 0))
    environment = os.environ | {"NO_COLOR": "1", "COLUMNS": str(WIDTH), "TRACELAB_STORE": str(store)}
    printed = b""
    with subprocess.Popen(command, stdout=theirs, stdin=subprocess.DEVNULL, env=environment):
        os.close(theirs)
        try:
            while chunk := os.read(ours, 65536):
                printed += chunk
        except OSError:  # on Linux: the other end is closed
            pass
    os.close(ours)
    return printed.decode().replace("\r\n", "\n")


@pytest.mark.parametrize(("command", "answer"), CONSOLE, ids=[command for command, _ in CONSOLE])
def test_a_command_of_the_readme_prints_what_it_shows(lab: Lab, command: str, answer: str) -> None:
    printed = on_a_terminal([sys.executable, "-m", *shlex.split(command)], lab.store)
    if answer.endswith("\n…"):
        answer = answer.removesuffix("…")
        printed = printed[: len(answer)]
    assert printed.rstrip("\n") == answer.rstrip("\n")


def test_the_kernels_of_the_page_overlap_as_doubles_only(tmp_path: Path) -> None:
    (text,) = re.findall(r"```json\n(.*?)```", EXACT_TIME, re.DOTALL)
    first, second = json.loads(text)["traceEvents"]
    (tmp_path / "trace.json").write_text(text)
    pipeline.ingest([tmp_path / "trace.json"], store=tmp_path / "lab")
    (row,) = Lab(tmp_path / "lab").query("kernel_concurrency").to_pylist()
    assert (first["ts"] + first["dur"] - second["ts"], row["concurrent_ns"]) == (0.25, 0)


def test_the_denominators_of_the_page(lab: Lab) -> None:
    listed = re.findall(
        r"^\| (?:all|the (?:time|window)).* \| ([\d,]+) ns \| ([\d.]+) % \|$", DENOMINATORS, re.MULTILINE
    )
    (share,) = (row for row in lab.query("nccl_share", rank=0).to_pylist() if row["collective"] == "broadcast")
    names = ("gpu_activity", "kernel_sum", "kernel_busy", "window")
    assert listed == [(f"{share[f'{name}_ns']:,}", f"{share[f'of_{name}_ratio'] * 100:.1f}") for name in names]


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "data/README.md"])
def test_a_link_leads_somewhere(document: str) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", (ROOT / document).read_text("utf-8"))
    assert [link for link in links if not (ROOT / document).parent.joinpath(link).exists()] == []


def test_the_example_query_runs(lab: Lab, tmp_path: Path) -> None:
    (text,) = re.findall(r"```sql\n(.*?)```", CONTRIBUTING, re.DOTALL)
    (tmp_path / "launch_gaps.sql").write_text(text)
    answer = lab.query(str(tmp_path / "launch_gaps.sql"), shortest_ns=5000)
    assert {row["stream"] for row in answer.to_pylist()} == {7, 20, 28}
