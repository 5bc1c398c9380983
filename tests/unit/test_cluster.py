"""`tracelab ingest --cluster`: the rows of one process, also where a worker is killed; mistakes are one sentence."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

import psutil
import pytest

from tests.traces import write_trace
from tests.unit.test_archives import tar
from tracelab.errors import StoreError, TracelabError, UsageError
from tracelab.ingest import batches, cluster, cluster_execution, pipeline
from tracelab.ingest.batches import Unit
from tracelab.ingest.cluster import open_executor
from tracelab.ingest.cluster_execution import execute_on_worker
from tracelab.ingest.pipeline import FileResult, ingest
from tracelab.store import session

pytest.importorskip("distributed")
dask = pytest.importorskip("dask")

LARGE_KERNELS, SMALL, RANKS = 40_000, 20, 4


class _Here(Executor):
    """A worker in this process."""

    def submit(self, function, /, *args, **kwargs):  # type: ignore[no-untyped-def]
        """Execute at once."""
        future: Future[object] = Future()
        future.set_result(function(*args, **kwargs))
        return future


HERE = _Here()


def kernels(store: Path) -> list[tuple[int, int, int]]:
    """Return rank, number and sum of start times, which are exact."""
    with session.connect(store, referenced="kernels sources") as con:
        query = "select rank, count(*), sum(start_ns) from kernels group by rank order by rank"
        return con.sql(query).fetchall()


def test_killed_workers_cost_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dask starts no other worker for one that is dead at this time after a death, here at once."""
    monkeypatch.setenv("DASK_DISTRIBUTED__DEPLOY__LOST_WORKER_TIMEOUT", "10 ms")
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
        for worker in workers:
            worker.kill()
        printed = driver.communicate()[1]
    assert driver.returncode == 0, printed
    assert f"job: {SMALL + 2} files" in printed
    ingest([job], tmp_path / "alone", run="job")
    assert kernels(store) == kernels(tmp_path / "alone")


def die_at_rank_0(unit: Unit, store: Path, *, replace: bool) -> list[FileResult]:
    """Execute a unit as a worker does that rank 0 kills."""
    if any(item.candidate.path.name == "rank0.json" for item in unit):
        time.sleep(0.5)  # Dask hands the worker its next task
        os.kill(os.getpid(), signal.SIGKILL)
    return execute_on_worker(unit, store, replace=replace)


def test_a_worker_that_dies_is_blamed_on_the_file_that_kills_it_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker holds a second task that it has not begun; Dask counts each of its deaths against both."""
    monkeypatch.setattr(cluster_execution, "execute_on_worker", die_at_rank_0)
    monkeypatch.setattr(batches, "_LEAST_TOGETHER", RANKS + 1)
    for rank in range(RANKS):
        write_trace(tmp_path / f"rank{rank}.json", kernels=3 + rank, rank=rank)
    results = ingest([tmp_path], tmp_path / "lab", run="job", cluster="local:1").files
    messages = {each.path.name: each.message for each in results if each.status == "failed"}
    problem = "each worker that read it died; check their memory, and ingest it again"
    assert messages == {"rank0.json": f"{tmp_path}/rank0.json: {problem}"}
    assert [row[:2] for row in kernels(tmp_path / "lab")] == [(rank, 3 + rank) for rank in range(1, RANKS)]


@pytest.mark.parametrize("spec", ["local:0", "local:two", "local:10000", "host:8786", "kubernetes"])
def test_a_text_that_names_no_cluster_is_refused(tmp_path: Path, spec: str) -> None:
    with pytest.raises(UsageError, match="is not a cluster; write local:N"):
        ingest([tmp_path], tmp_path / "lab", cluster=spec)


def test_without_dask_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(UsageError, match=r"pip install 'tracelab\[cluster\]'"):
        ingest([tmp_path], tmp_path / "lab", cluster="local:2")


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small ranks, which are read together, and a file without profiler data."""
    folder = tmp_path_factory.mktemp("cluster") / "job"
    folder.mkdir()
    for rank in range(SMALL):
        write_trace(folder / f"rank{rank}.json", kernels=3 + rank, rank=rank)
    (folder / "notes.txt").write_text("text")
    return folder


EXPECTED = [(rank, 3 + rank) for rank in range(SMALL)]


def run_ingest(folder: Path, job: Path, spec: str) -> subprocess.CompletedProcess[str]:
    """Ingest in a process of its own, started in a folder that no worker has."""
    command = [sys.executable, "-m", "tracelab", "ingest", job, "--store", "lab", "--run", "job", "--cluster", spec]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


@contextmanager
def running(*words: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process of Dask. It is killed: a worker that is to terminate waits forever for a scheduler that is gone."""
    command = [sys.executable, "-m", "dask", *words, "--no-dashboard"]
    process = subprocess.Popen(command, cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def find_free_address() -> str:
    """Return an address where nothing answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{free.getsockname()[1]}"


@contextmanager
def scheduler() -> Iterator[str]:
    """Run a scheduler; yields its address."""
    address = find_free_address()
    with running("scheduler", "--host", address, "--dashboard-address", ":0"):
        yield address


def test_a_scheduler_without_a_worker_is_refused(tmp_path: Path, job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_PATIENCE_S", 1)
    monkeypatch.setattr(cluster_execution, "_CHECK_S", 0.2)
    with scheduler() as address, pytest.raises(UsageError, match=rf"{address} has had no worker for 1 s; start some"):
        ingest([job], tmp_path / "lab", cluster=address)


def test_workers_that_do_not_come_back_end_the_ingest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_PATIENCE_S", 1)
    with scheduler() as address, open_executor(address) as (pool, check_workers):
        with running("worker", address, "--nthreads", "1", "--no-nanny"):
            assert pool.submit(abs, -1).result(60) == 1
            check_workers()
        with pytest.raises(TracelabError, match="has had no worker for 1 s; check their memory, and ingest again"):
            while True:
                time.sleep(0.1)
                check_workers()


def test_a_scheduler_that_dies_is_one_sentence(tmp_path: Path) -> None:
    write_trace(tmp_path / "rank0.json", kernels=LARGE_KERNELS, rank=0)
    address, store = find_free_address(), tmp_path / "lab"
    command = [sys.executable, "-m", "tracelab", "ingest", "rank0.json", "--store", "lab", "--cluster", address]
    with (
        running("scheduler", "--host", address, "--dashboard-address", ":0") as dying,
        running("worker", address, "--nthreads", "1", "--no-nanny"),
        subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as driver,
    ):
        while driver.poll() is None and len(list(store.glob(".staging/*/"))) < 2:  # the driver has one, too
            time.sleep(0.02)
        dying.kill()
        printed = driver.communicate()[1]
    message = "the connection to the Dask scheduler was lost; ingest again, and what is stored stays"
    assert (driver.returncode, printed) == (1, f"tracelab: {message}\n")


def test_a_scheduler_that_does_not_answer_leaves_no_store(
    tmp_path: Path, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "_CONNECT_S", 0.1)
    for address in (find_free_address(), "tcp://127.0.0.1:port"):
        with pytest.raises(UsageError, match=f"{address} cannot be opened: "):
            ingest([job], tmp_path / "lab", cluster=address)
    assert not (tmp_path / "lab").exists()


def test_a_server_that_is_no_scheduler_is_refused(tmp_path: Path, job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_CONNECT_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(UsageError, match=f"{address} cannot be opened: timed out"):
            ingest([job], tmp_path / "lab", cluster=address)


@pytest.mark.parametrize(("protocol", "problem"), [("tls", "TLS expects"), ("ucx", "Can't instantiate abstract class")])
def test_a_protocol_without_configuration_is_one_sentence_and_leaves_no_store(
    tmp_path: Path, job: Path, protocol: str, problem: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"{protocol}://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(UsageError, match=f"{address} cannot be opened: {problem}"):
            ingest([job], tmp_path / "lab", cluster=address)
    assert not (tmp_path / "lab").exists()


def test_files_without_profiler_data_need_no_cluster(
    tmp_path: Path, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_execution, "open_executor", None)
    assert ingest([job / "notes.txt"], tmp_path / "lab", cluster="local:1").exit_code == 3


def test_a_worker_that_dies_as_it_starts_is_one_sentence(
    tmp_path: Path, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(**_options: object) -> None:
        raise RuntimeError("Nanny failed to start.")

    monkeypatch.setattr("distributed.LocalCluster", fail)
    with pytest.raises(UsageError, match="local:2 cannot be opened: Nanny failed to start"):
        ingest([job], tmp_path / "lab", cluster="local:2")


def test_a_scheduler_and_a_worker_elsewhere_store_the_same_rows(tmp_path: Path, job: Path) -> None:
    with scheduler() as address, running("worker", address, "--nthreads", "1", "--no-nanny"):
        done = run_ingest(tmp_path, job, address)
    assert done.returncode == 0, done.stderr
    assert [row[:2] for row in kernels(tmp_path / "lab")] == EXPECTED
    assert f"{SMALL} stored, 1 no profiler data" in done.stderr


OTHER_WORKERS = {
    "none": ("sys.modules['tracelab'] = None", "No module named 'tracelab"),
    "older": ("import tracelab.ingest.cluster_execution as m; del m.execute_on_worker", "Can't get attribute"),
}


@pytest.mark.parametrize("kind", OTHER_WORKERS)
def test_a_worker_with_another_tracelab_is_one_sentence_and_survives(tmp_path: Path, job: Path, kind: str) -> None:
    change, problem = OTHER_WORKERS[kind]
    program = f"import sys; {change}\nfrom distributed.cli.dask_worker import main; main()"
    with scheduler() as address:
        command = [sys.executable, "-c", program, address, "--nthreads", "1", "--no-nanny", "--no-dashboard"]
        with subprocess.Popen(command, cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as worker:
            done = run_ingest(tmp_path, job, address)
            is_alive = worker.poll() is None
            worker.kill()
    sentence = f"tracelab: a worker has no tracelab, or another version than this process ({problem}"
    assert (done.returncode, done.stderr.count("\n"), is_alive) == (1, 1, True), done.stderr
    assert done.stderr.startswith(sentence)


SBATCH = """#!/bin/sh
for script; do :; done
number=$$
cp "$script" "$FAKE_SLURM/$number.sh"
setsid sh "$FAKE_SLURM/$number.sh" >"$FAKE_SLURM/$number.log" 2>&1 </dev/null &
echo $! >"$FAKE_SLURM/$number.pid"
echo "Submitted batch job $number"
"""
SCANCEL = """#!/bin/sh
for number; do echo "$number" >>"$FAKE_SLURM/canceled"; kill -- "-$(cat "$FAKE_SLURM/$number.pid")"; done
"""


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Commands of SLURM that run jobs here; yields the folder of what they did."""
    commands, state = tmp_path / "bin", tmp_path / "slurm"
    commands.mkdir()
    state.mkdir()
    for name, text in {"sbatch": SBATCH, "scancel": SCANCEL, "squeue": "#!/bin/sh\n"}.items():
        (commands / name).write_text(text)
        (commands / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{commands}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_SLURM", str(state))
    for name, value in {"CORES": "1", "MEMORY": "2GB", "INTERFACE": "lo", "LOG_DIRECTORY": str(state)}.items():
        monkeypatch.setenv(f"DASK_JOBQUEUE__SLURM__{name}", value)
    yield state
    for process in state.glob("*.pid"):
        with suppress(ProcessLookupError):
            os.killpg(int(process.read_text()), signal.SIGKILL)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("spec", ["local:1", "slurm:1"])
def test_a_second_cluster_does_not_warn_of_the_port_of_the_first(slurm: Path, spec: str) -> None:
    configured = {"jobqueue.slurm.cores": 1, "jobqueue.slurm.memory": "2GB", "jobqueue.slurm.interface": "lo"}
    with socket.socket() as other, dask.config.set(configured):
        with suppress(OSError):  # taken already
            other.bind(("127.0.0.1", 8787))
            other.listen()
        with open_executor(spec):
            pass


def test_jobs_of_slurm_store_the_same_rows_and_are_canceled(tmp_path: Path, slurm: Path, job: Path) -> None:
    done = run_ingest(tmp_path, job, "slurm:1")
    assert done.returncode == 0, done.stderr
    assert [row[:2] for row in kernels(tmp_path / "lab")] == EXPECTED
    (script,) = slurm.glob("*.sh")
    assert "#SBATCH --mem=2G" in script.read_text()
    assert (slurm / "canceled").read_text().split() == [script.stem]


def test_a_job_that_slurm_refuses_is_one_sentence(tmp_path: Path, slurm: Path, job: Path) -> None:
    (tmp_path / "bin" / "sbatch").write_text("#!/bin/sh\necho 'sbatch: error: Invalid account' >&2\nexit 1\n")
    done = run_ingest(tmp_path, job, "slurm:1")
    message = "tracelab: --cluster slurm: sbatch refuses the job: sbatch: error: Invalid account\n"
    assert (done.returncode, done.stderr) == (2, message)
    assert not (tmp_path / "lab").exists()


QUEUEING_SBATCH = """#!/bin/sh
setsid sleep 1000 >/dev/null 2>&1 </dev/null &
echo $! >"$FAKE_SLURM/$$.pid"
echo "Submitted batch job $$"
"""
ANNOUNCING = """
import sys
from tracelab.cli import run
from tracelab.ingest import cluster, cluster_execution
cluster._PATIENCE_S, cluster._ANNOUNCED_S, cluster_execution._CHECK_S = 0.5, 1, 0.2
run()
"""


def test_jobs_in_the_queue_of_slurm_are_waited_for_aloud_until_ctrl_c_cancels_them(
    tmp_path: Path, slurm: Path, job: Path
) -> None:
    (tmp_path / "bin" / "sbatch").write_text(QUEUEING_SBATCH)
    (tmp_path / "bin" / "scancel").write_text('#!/bin/sh\necho "$@" >>"$FAKE_SLURM/canceled"\n')
    command = [sys.executable, "-c", ANNOUNCING, "ingest", job, "--store", tmp_path / "lab", "--cluster", "slurm:2"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as driver:
        assert driver.stderr is not None
        lines = [driver.stderr.readline() for _ in range(2)]
        driver.send_signal(signal.SIGINT)
        rest = driver.stderr.read()
    announcement = r"--cluster slurm:2: 0 of 2 workers here after \d s; squeue lists their jobs, Ctrl-C cancels them\n"
    assert all(re.fullmatch(announcement, line) for line in lines), lines
    assert (driver.returncode, rest) == (130, "tracelab: interrupted\n")
    jobs = sorted(path.stem for path in slurm.glob("*.pid"))
    assert sorted((slurm / "canceled").read_text().split()) == jobs
    assert len(jobs) == 2


def test_what_slurm_needs_is_named(tmp_path: Path, slurm: Path, job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DASK_JOBQUEUE__SLURM__MEMORY")
    done = run_ingest(tmp_path, job, "slurm:1")
    assert "set DASK_JOBQUEUE__SLURM__CORES and DASK_JOBQUEUE__SLURM__MEMORY" in done.stderr
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="needs sbatch, which is not on PATH"):
        ingest([job], tmp_path / "lab", cluster="slurm:1")


def test_files_that_a_worker_stores_in_a_store_of_its_own_failed(
    tmp_path: Path, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker has other files at the path of the store where its machine does not mount the disk of the store."""
    monkeypatch.setattr(cluster_execution, "open_executor", lambda *_: nullcontext((HERE, lambda: None)))
    own = tmp_path / "own"
    monkeypatch.setattr(
        cluster_execution,
        "execute_on_worker",
        lambda unit, store, replace: execute_on_worker(unit, own, replace=replace),
    )
    results = {each.path.name: each for each in ingest([job], tmp_path / "lab", run="job", cluster="local:1").files}
    assert results.pop("notes.txt").status == "not_profiler_data"
    assert {each.status for each in results.values()} == {"failed"}
    assert results["rank0.json"].message == (
        f"{job}/rank0.json: its worker stored it in another store than {tmp_path}/lab; "
        "choose a --store that all workers share"
    )


def test_a_trace_that_a_worker_cannot_see_names_the_worker(
    tmp_path: Path, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_execution, "open_executor", lambda *_: nullcontext((HERE, lambda: None)))
    hidden = shutil.copytree(job, tmp_path / "hidden")

    def execute_elsewhere(unit: Unit, store: Path, *, replace: bool) -> list[FileResult]:
        hidden.rename(tmp_path / "unmounted")
        try:
            return execute_on_worker(unit, store, replace=replace)
        finally:
            (tmp_path / "unmounted").rename(hidden)

    monkeypatch.setattr(cluster_execution, "execute_on_worker", execute_elsewhere)
    results = ingest([hidden / "rank0.json"], tmp_path / "lab", run="job", cluster="local:1").files
    assert [each.message for each in results] == [
        f"{hidden}/rank0.json: the worker on {socket.gethostname()} cannot see it; "
        "put the traces on a disk that all workers share, at the same path"
    ]


def test_a_worker_that_cannot_use_the_store_is_named(
    tmp_path: Path, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one without the credentials that the process that plans has."""
    monkeypatch.setattr(cluster_execution, "open_executor", lambda *_: nullcontext((HERE, lambda: None)))

    def refuse(*_: object, **__: object) -> None:
        raise StoreError("s3://bucket/lab: Access Denied; check the address and its credentials")

    monkeypatch.setattr(cluster_execution, "execute", refuse)
    with pytest.raises(
        StoreError, match=rf"the worker on {socket.gethostname()}: s3://bucket/lab: Access Denied; check"
    ):
        ingest([job], tmp_path / "lab", run="job", cluster="local:1")


def test_a_worker_on_another_machine_unpacks_its_members_anew(
    tmp_path: Path, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Delete the copies of the process that plans, as if the worker had no access to its disk."""
    archive = tmp_path / "all.tar"
    archive.write_bytes(tar({f"job/{path.name}": path.read_bytes() for path in job.iterdir()}))

    def execute_elsewhere(units, store, jobs, *, replace, progress):  # type: ignore[no-untyped-def]
        shutil.rmtree(units[0][0].candidate.path.parents[1])
        return [result for unit in units for result in execute_on_worker(unit, store.address, replace=replace)]

    monkeypatch.setattr(pipeline, "_execute_here", execute_elsewhere)
    with pytest.raises(KeyError):  # the paths of results are those of the new copies; a cluster's are mapped back
        ingest([archive], tmp_path / "lab", run="job")
    assert [row[:2] for row in kernels(tmp_path / "lab")] == EXPECTED
