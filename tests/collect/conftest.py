"""Ranks and stand-ins for NVIDIA's tools that start fast."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.collect.fork_server import ForkServer
from tracelab.collect.process import launch


@pytest.fixture(scope="session", autouse=True)
def _own_python_first() -> Iterator[None]:
    """Start the stand-ins with the Python of the tests: a version manager's `python3` takes ten times as long."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
        yield


@pytest.fixture(scope="session")
def _fork_server() -> Iterator[ForkServer | None]:
    """A process that has imported torch; None where it cannot fork."""
    server = ForkServer() if sys.platform == "linux" else None
    yield server
    if server:
        server.close()


@pytest.fixture(scope="module")
def _forked_ranks(_fork_server: ForkServer | None) -> Iterator[None]:
    """Start ranks as forks of a process that has imported torch, where Linux can do that."""
    with pytest.MonkeyPatch.context() as patch:
        if _fork_server:
            patch.setattr(launch, "subprocess", SimpleNamespace(Popen=_fork_server.popen, STDOUT=subprocess.STDOUT))
        yield


@pytest.fixture
def _ranks_in_new_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start the ranks of one test as `tracelab collect train` does, in a module that forks them."""
    monkeypatch.setattr(launch, "subprocess", subprocess)
