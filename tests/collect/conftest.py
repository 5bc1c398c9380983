"""Ranks and stand-ins for NVIDIA's tools that start fast."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tracelab.collect.process import launch
from tracelab.collect.program import process


@pytest.fixture(scope="session", autouse=True)
def _own_python_first() -> Iterator[None]:
    """Start the stand-ins with the Python of the tests: a version manager's `python3` takes ten times as long."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
        yield


@pytest.fixture
def _ranks_in_new_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start the ranks of one test as `tracelab collect train` does, in a module that forks them."""
    monkeypatch.setattr(launch, "subprocess", subprocess)


@pytest.fixture
def _programs_in_new_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start the programs of one test as `tracelab collect run` does, in a module that forks them.

    A fork of the tests ends without the exit handlers of libraries.
    """
    monkeypatch.setattr(process, "subprocess", subprocess)
