"""Ranks that start fast."""

import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from tests.collect.fork_server import ForkServer
from tracelab.collect.process import launch


@pytest.fixture(scope="module")
def _forked_ranks() -> Iterator[None]:
    """Start ranks as forks of a process that has imported torch, where Linux can do that."""
    if sys.platform != "linux":
        yield
        return
    server = ForkServer()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch, "subprocess", SimpleNamespace(Popen=server.popen, STDOUT=subprocess.STDOUT))
        yield
    server.close()
