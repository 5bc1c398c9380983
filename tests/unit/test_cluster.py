"""`tracelab ingest --cluster`: the rows of one process, also where a worker is killed; mistakes are one sentence."""

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.traces import write_trace
from tracelab.errors import UsageError
from tracelab.ingest.pipeline import ingest
from tracelab.store import session

pytest.importorskip("distributed")

LARGE_KERNELS, SMALL = 40_000, 20


def kernels(store: Path) -> list[tuple[int, int, int]]:
    """Return rank, number and sum of start times, which are exact."""
    with session.connect(store, referenced="kernels sources") as con:
        query = "select rank, count(*), sum(start_ns) from kernels group by rank order by rank"
        return con.sql(query).fetchall()


def test_a_killed_worker_costs_no_row(tmp_path: Path) -> None:
    job, store = tmp_path / "job", tmp_path / "lab"
    job.mkdir()
    for rank in range(SMALL):
        write_trace(job / f"rank{rank}.json", kernels=3 + rank, rank=rank)
    for rank in range(SMALL, SMALL + 2):  # long enough to be read when the worker dies
        write_trace(job / f"rank{rank}.json", kernels=LARGE_KERNELS, rank=rank)
    command = [sys.executable, "-m", "tracelab", "ingest", job, "--store", store, "--run", "job"]
    with subprocess.Popen([*command, "--cluster", "local:2"], stderr=subprocess.PIPE, text=True) as driver:
        while driver.poll() is None and len(list(store.glob(".staging/*/"))) < 2:  # the driver has one, too
            time.sleep(0.02)
        workers = [each for each in psutil.Process(driver.pid).children() if "spawn_main" in " ".join(each.cmdline())]
        assert workers
        workers[0].kill()
        printed = driver.communicate()[1]
    assert driver.returncode == 0, printed
    assert f"job: {SMALL + 2} files" in printed
    ingest([job], tmp_path / "alone", run="job")
    assert kernels(store) == kernels(tmp_path / "alone")


@pytest.mark.parametrize("spec", ["local:0", "local:two", "host:8786", "kubernetes"])
def test_a_text_that_names_no_cluster_is_refused(tmp_path: Path, spec: str) -> None:
    with pytest.raises(UsageError, match="is not a cluster; write local:N"):
        ingest([tmp_path], tmp_path / "lab", cluster=spec)


def test_without_dask_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(UsageError, match=r"pip install 'tracelab\[cluster\]'"):
        ingest([tmp_path], tmp_path / "lab", cluster="local:2")
