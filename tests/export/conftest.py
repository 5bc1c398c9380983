"""`tracelab view` as its users start it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.build import build_store

KERNELS = [{"name": "<b>gemm</b>", "device": 0, "stream": 7, "start_ns": 10 * at, "dur_ns": 5} for at in range(50)]


@pytest.fixture
def shell() -> str:
    """What the shell that starts `tracelab view` does."""
    return 'exec "$@"'


@pytest.fixture
def viewed(tmp_path: Path, shell: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`tracelab view --no-browser` in a process of its own, and the address that it prints."""
    store = build_store(tmp_path / "lab", {"kernels": KERNELS})
    view = [sys.executable, "-m", "tracelab", "view", "--no-browser", "--store", str(store)]
    command = ["sh", "-c", shell, "sh", *view]
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ | {"TMPDIR": str(scratch)})
    said = ""
    for line in process.stderr:
        said = line
        if "http://" in line:
            break
    yield process, said.split(" is at ")[1].split()[0]
    process.kill()
    process.wait()
    process.stderr.close()
