"""Fixtures of unit tests: a server of object storage, an empty store there, and the traces of a job."""

import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.object_storage import RANKS
from tests.traces import write_trace


@pytest.fixture(scope="session")
def endpoint() -> Iterator[str]:
    """The address of a server with a bucket `lab`."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "tests.s3_server", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        url = f"http://127.0.0.1:{port}"
        for _ in range(600):
            try:
                make_bucket = urllib.request.Request(f"{url}/lab", method="PUT")  # noqa: S310 - a URL of our own
                urllib.request.urlopen(make_bucket).close()  # noqa: S310
                break
            except OSError:
                time.sleep(0.1)
        yield url
        server.terminate()


@pytest.fixture
def url(endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of an empty store."""
    values = {"ENDPOINT_URL": endpoint, "ACCESS_KEY_ID": "key", "SECRET_ACCESS_KEY": "secret", "REGION": "us-east-1"}
    for name, value in values.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    return f"s3://lab/{tmp_path.name}"


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """Ranks of one run, of which each has one kernel more than the one before."""
    folder = tmp_path / "job"
    folder.mkdir()
    for rank in range(RANKS):
        write_trace(folder / f"rank{rank}.json", kernels=3 + rank, rank=rank)
    return folder
