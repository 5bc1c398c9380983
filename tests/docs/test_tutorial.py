"""The tutorial: every command of it works as it stands, one after the other, and its answers are what it says."""

import csv
import io
import os
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.needs import needs_torch
from tracelab.cli import main

pytestmark = needs_torch

CHECKOUT = Path(__file__).parents[2]
COMMANDS = re.findall(r"^    (tracelab .*)$", (CHECKOUT / "docs" / "tutorial" / "index.md").read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory, _forked_ranks: None) -> dict[str, str]:
    """What each command printed, in a folder that had nothing in it."""
    folder = tmp_path_factory.mktemp("tutorial")
    printed = {}
    with pytest.MonkeyPatch.context() as patch:
        for name in os.environ:
            if name.startswith("TRACELAB"):
                patch.delenv(name)
        patch.chdir(folder)
        for command in COMMANDS:
            result = CliRunner().invoke(main, shlex.split(command)[1:])
            assert result.exit_code == 0, f"{command}:\n{result.output}{result.exception}"
            printed[command] = result.stdout
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
