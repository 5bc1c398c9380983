"""The tutorial: every command of it works as it stands, one after the other, and its answers are what it says."""

import csv
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.needs import needs_torch

pytestmark = needs_torch

CHECKOUT = Path(__file__).parents[2]
COMMANDS = re.findall(r"^    (tracelab .*)$", (CHECKOUT / "docs" / "tutorial" / "index.md").read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What each command printed, in a folder that had nothing in it."""
    folder = tmp_path_factory.mktemp("tutorial")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TRACELAB")}
    environment["PYTHONPATH"] = str(CHECKOUT / "src")
    printed = {}
    for command in COMMANDS:
        words = [sys.executable, "-m", "tracelab", *shlex.split(command)[1:]]
        done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, check=False, text=True)
        assert done.returncode == 0, f"{command}:\n{done.stdout}{done.stderr}"
        printed[command] = done.stdout
    printed["ls"] = " ".join(sorted(path.name for path in folder.iterdir()))
    return printed


def test_the_commands_leave_what_they_are_documented_to_leave(followed: dict[str, str]) -> None:
    assert followed["ls"] == "first.json.gz lab memory.svg report.html runs"


def test_each_recorded_step_is_answered(followed: dict[str, str]) -> None:
    rows = list(csv.DictReader(io.StringIO(followed["tracelab query step_breakdown"])))
    assert len(rows) == 3
    assert all(int(row["step_ns"]) > 0 for row in rows)


def test_the_larger_batch_needs_more_memory(followed: dict[str, str]) -> None:
    rows = csv.DictReader(io.StringIO(followed["tracelab query memory_peak"]))
    peaks = {row["run"]: int(row["peak_bytes"]) for row in rows}
    assert 10_000_000 < peaks["first"] < peaks["larger"]
