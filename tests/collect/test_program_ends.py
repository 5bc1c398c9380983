"""How `tracelab collect run` ends: with the program's exit code, its true cause, and nothing left behind."""

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.collect.test_program_runs import record
from tests.needs import needs_torch
from tracelab.cli import collect_run
from tracelab.collect import status

pytestmark = [needs_torch, pytest.mark.usefixtures("_forked_programs")]


@pytest.mark.parametrize(
    ("program", "code", "error"),
    [
        ("import torch; print('done'); sys.exit(3)", 3, "ended with exit code 3"),
        ("import torch; print('done'); raise KeyError('height')", 1, "KeyError: 'height'"),
        ("import torch; print('done'); os._exit(4)", 4, "ended with exit code 4; its recording is lost, because"),
        ("import torch; print('done'); os.kill(os.getpid(), 9)", 137, "killed by SIGKILL; its recording is lost"),
        ("import torch; os._exit(0)", 1, "the process ended by os._exit, or was killed"),
    ],
)
def test_the_exit_code_is_that_of_the_program_and_its_output_no_cause(
    tmp_path: Path, program: str, code: int, error: str
) -> None:
    script = tmp_path / "script.py"
    script.write_text(f"import os, sys\n{program}")
    options = ["--out", str(tmp_path), "--run", "r", "--sample-s", "0"]
    done = CliRunner().invoke(collect_run.command, [*options, "--", sys.executable, str(script)])
    assert done.exit_code == code, done.output
    assert f"/r: {'profiler_error' if '_exit(0)' in program else 'failed'}; {error}" in done.output


def test_the_exception_of_a_python_without_a_hook_is_the_cause(tmp_path: Path) -> None:
    result = record(tmp_path, sys.executable, "-I", "-c", "print('done'); raise KeyError('height')")
    assert (result.error, result.exit_code) == ("ended with exit code 1: KeyError: 'height'", 1)


def test_the_exception_is_the_one_that_ended_the_program() -> None:
    errors = "Traceback (most recent call last):\n  File\nKeyError: 1\n\nDuring handling of the above exception\n\n"
    errors += 'Traceback (most recent call last):\n  File "x"\n    f(\n      ^\npkg.Error: two\nlines\n'
    assert status.find_exception(errors) == "pkg.Error: two"
    assert status.find_exception("100%|####| 3/3\n") == ""
