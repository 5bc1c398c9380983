"""Open a Dask cluster as an executor: local processes, a running scheduler, or SLURM jobs."""

import importlib
import logging
import re
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from typing import Any
from urllib.parse import urlsplit

from tracelab.errors import TracelabError, UsageError

_RETRIES = 2
"""How often a task starts again after an error of its worker."""

_PATIENCE_S = 300
"""How long tasks wait for a worker: a scheduler may start workers once it has tasks, and a dead one may come back."""

_CONNECT_S = 30
"""How long a scheduler may take to answer, which may be starting."""

_LOST_AFTER, _NEVER = "distributed.deploy.lost-worker-timeout", "1000 days"

_SPEC = re.compile(r"(?P<kind>local|slurm)(:(?P<workers>[1-9]\d{0,3}))?|(?P<address>(tcp|tls|ucx)://\S+)")


def check_spec(spec: str) -> None:
    """Raise UsageError for a text that names no cluster, where Dask is missing, and where no scheduler answers."""
    match = _SPEC.fullmatch(spec)
    if match is None:
        raise UsageError(
            f"{spec!r} is not a cluster; write local:N (N processes), slurm:N (N jobs, 1 to 9,999), "
            "or the address of a Dask scheduler, such as tcp://host:8786"
        )
    try:
        import distributed  # noqa: F401

        if match["kind"] == "slurm":
            import dask_jobqueue  # noqa: F401
    except ImportError as error:
        raise UsageError(f"--cluster needs Dask ({error}); run `pip install 'tracelab[cluster]'`") from error
    if match["kind"] == "slurm" and shutil.which("sbatch") is None:
        raise UsageError("--cluster slurm needs sbatch, which is not on PATH; run this on a login node of the cluster")
    if match["address"] and not spec.startswith("ucx:"):
        _check_scheduler(spec)


def _check_scheduler(address: str) -> None:
    """Raise UsageError where no scheduler answers, which greets a client first.

    Dask resolves a name again and again, for minutes, and waits for ever for a greeting.
    """
    deadline_s = time.monotonic() + _CONNECT_S
    try:
        url = urlsplit(address)
        while url.hostname and url.port:
            try:
                with socket.create_connection((url.hostname, url.port), timeout=_CONNECT_S) as connection:
                    if url.scheme == "tcp" and not connection.recv(1):
                        raise OSError("what answers is no Dask scheduler")
                    return
            except ConnectionRefusedError:
                if time.monotonic() > deadline_s:
                    raise
                time.sleep(0.2)
    except (OSError, ValueError) as error:
        raise _opening_error(address, error) from error


def _opening_error(spec: str, error: Exception) -> UsageError:
    return UsageError(f"--cluster {spec} cannot be opened: {(str(error) or type(error).__name__).splitlines()[0]}")


@contextmanager
def open_executor(spec: str) -> Iterator[tuple[Executor, Callable[[], None]]]:
    """Open the cluster that a checked text names. A task whose worker dies runs again on another worker.

    The function beside the executor is called from time to time while tasks wait. It raises UsageError where no worker
    came, and TracelabError where all are gone and none comes back. Jobs in the queue of SLURM are waited for.

    Raises UsageError where the cluster cannot be opened, or where a site has no configuration for SLURM.
    """
    distributed: Any = importlib.import_module("distributed")  # parts of it have no type information
    with ExitStack() as opened:
        _set_log_level(opened, "distributed.client")  # it prints the traceback of a lost scheduler
        try:
            cluster = _open_cluster(distributed, spec, opened)
            client = opened.enter_context(distributed.Client(cluster))
        except (OSError, ValueError, TypeError, RuntimeError) as error:  # TypeError: a protocol without configuration
            raise _opening_error(spec, error) from error
        last_s, has_come = time.monotonic(), not isinstance(cluster, str)

        def check_workers() -> None:
            nonlocal last_s, has_come
            try:
                workers = client.nthreads()
            except (OSError, RuntimeError, AttributeError):  # the scheduler is lost, and the tasks are soon canceled
                return
            if workers:
                last_s, has_come = time.monotonic(), True
            elif time.monotonic() - last_s > _PATIENCE_S and not (spec.startswith("slurm") and cluster.workers):
                problem = f"--cluster {spec} has had no worker for {_PATIENCE_S} s"
                if has_come:
                    raise TracelabError(f"{problem}; check their memory, and ingest again: what is stored stays")
                raise UsageError(f"{problem}; start some (`dask worker {spec}`), and ingest again")

        yield client.get_executor(pure=False, retries=_RETRIES), check_workers


def _set_log_level(opened: ExitStack, name: str) -> None:
    """Have a logger of Dask print nothing, until the cluster is closed."""
    logger = logging.getLogger(name)
    opened.callback(logger.setLevel, logger.level)
    logger.setLevel(logging.CRITICAL)


def worker_died(error: BaseException) -> bool:
    """Return whether this is the error of a task whose workers all died."""
    from distributed import KilledWorker

    return isinstance(error, KilledWorker)


def _open_cluster(distributed: Any, spec: str, opened: ExitStack) -> Any:  # noqa: ANN401
    """Return what Client takes: an address, or a cluster."""
    match = _SPEC.fullmatch(spec)
    if match is None or match["address"]:
        return spec
    # Dask gives a worker up that is dead at this time after a death, also one that dies anew, and starts no other.
    lost_after = _NEVER if match["kind"] == "local" else f"{_PATIENCE_S} s"
    opened.enter_context(importlib.import_module("dask").config.set({_LOST_AFTER: lost_after}))
    workers = int(match["workers"]) if match["workers"] else None
    if match["kind"] == "local":
        options = {"threads_per_worker": 1, "dashboard_address": None, "silence_logs": logging.CRITICAL}
        return opened.enter_context(distributed.LocalCluster(n_workers=workers, **options))
    return _submit_jobs(workers or 1, opened)


def _submit_jobs(count: int, opened: ExitStack) -> Any:  # noqa: ANN401
    """Submit jobs to SLURM, each a worker. Raises UsageError where sbatch refuses them."""
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # it would print the traceback of a refusal
    try:
        jobs = importlib.import_module("dask_jobqueue").SLURMCluster()
    except ValueError as error:
        raise UsageError(
            "--cluster slurm needs the cores and the memory of a job; set DASK_JOBQUEUE__SLURM__CORES and "
            "DASK_JOBQUEUE__SLURM__MEMORY, or write them to ~/.config/dask/jobqueue.yaml"
        ) from error
    opened.callback(_close_jobs, jobs)
    for _ in range(count):
        jobs.worker_spec.update(jobs.new_worker_spec())
    try:
        jobs.sync(jobs._correct_state)  # as jobs.scale() does, which returns before and reports no refusal
    except RuntimeError as error:
        refusal = str(error).rpartition("stderr:")[2].strip().splitlines() or [str(error).splitlines()[0]]
        raise UsageError(f"--cluster slurm: sbatch refuses the job: {refusal[0]}") from error
    return jobs


def _close_jobs(jobs: Any) -> None:  # noqa: ANN401
    try:
        jobs.close()
    except AssertionError:  # that a job was submitted
        jobs.shutdown_on_close = False  # else Dask closes them again as Python exits, and gives up after 10 s
