"""Recordings of one command, or of two that alternate."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from tracelab.cli import main
from tracelab.cli.collect_noise import parse_command
from tracelab.collect.repeats import plan_repeats
from tracelab.collect.settings import Settings
from tracelab.errors import UsageError


def test_recordings_of_one_command_are_named_as_repeats_of_a_sweep() -> None:
    sweep = plan_repeats("noise", [Settings("gemm", steps=3)], 3, Path("runs"))
    assert [(cell.run, cell.settings.repeat, cell.settings.steps) for cell in sweep.cells] == [
        ("noise", 0, 3),
        ("noise-r1", 1, 3),
        ("noise-r2", 2, 3),
    ]
    assert {cell.settings.out for cell in sweep.cells} == {Path("runs/noise")}


def test_two_commands_alternate_so_that_drift_falls_on_both() -> None:
    sweep = plan_repeats("pr", [Settings("gemm"), Settings("gemm", compile=True)], 3, Path("runs"))
    assert [cell.run for cell in sweep.cells] == [
        "pr-base",
        "pr-candidate",
        "pr-candidate-r1",
        "pr-base-r1",
        "pr-base-r2",
        "pr-candidate-r2",
    ]
    assert [cell.settings.compile for cell in sweep.cells] == [False, True, True, False, False, True]


def test_two_equal_commands_are_refused() -> None:
    with pytest.raises(UsageError, match="--against repeats the command"):
        plan_repeats("pr", [Settings("gemm"), Settings("gemm")], 3, Path("runs"))


def test_second_command_takes_the_options_of_collect_train() -> None:
    settings = parse_command("transformer --steps 20 --set width=96 --compile")
    assert (settings.workload, settings.steps, settings.set, settings.compile) == (
        "transformer",
        20,
        {"width": "96"},
        True,
    )


def test_second_command_with_an_unknown_option_is_refused() -> None:
    result = CliRunner().invoke(main, ["collect", "noise", "gemm", "--against", "gemm --stepz 3"])
    assert (result.exit_code, "No such option" in result.output) == (2, True)
