"""Open a Dask cluster as an executor: local processes, a running scheduler, or SLURM jobs."""

import importlib
import logging
import re
import shutil
import signal
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from tracelab.errors import TracelabError, UsageError

_RETRIES = 2
"""How often a task starts again after an error of its worker."""

_PATIENCE_S = 300
"""How long tasks wait for a worker: a scheduler may start workers once it has tasks, and a dead one may come back."""

_ANNOUNCED_S = 60
"""How often is announced that tasks wait for a worker."""

_CONNECT_S = 30
"""How long a scheduler may take to answer, which may be starting."""

_NO_DASHBOARD = {"dashboard": False, "dashboard_address": "127.0.0.1:0"}
"""Options of a scheduler: without an address of its own, it warns of the port of another one's dashboard."""

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
            _import_jobqueue()
    except ImportError as error:
        raise UsageError(f"--cluster needs Dask ({error}); run `pip install 'tracelab[cluster]'`") from error
    if match["kind"] == "slurm" and shutil.which("sbatch") is None:
        raise UsageError("--cluster slurm needs sbatch, which is not on PATH; run this on a login node of the cluster")
    if match["address"] and not spec.startswith("ucx:"):
        _check_scheduler(spec)


def _import_jobqueue() -> ModuleType:
    """Import dask_jobqueue, and undo its handlers of signals, by which Ctrl-C and SIGTERM exit with 0."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    module = importlib.import_module("dask_jobqueue")
    for number, handler in handlers.items():
        if signal.getsignal(number) is not handler:
            signal.signal(number, handler)
    return module


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
def open_executor(
    spec: str, announce: Callable[[str], None] | None = None
) -> Iterator[tuple[Executor, Callable[[], None]]]:
    """Open the cluster that a checked text names. A task whose worker dies runs again on another worker.

    The function beside the executor is called from time to time while tasks wait. It announces every minute that no
    worker is there. It raises UsageError where none came, and TracelabError where all are gone and none comes back.
    Jobs in the queue of SLURM are waited for.

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
        has_come = not isinstance(cluster, str)
        since_s: float | None = None
        announced_s = 0.0

        def check_workers() -> None:
            nonlocal has_come, since_s, announced_s
            try:
                workers = client.nthreads()
            except (OSError, RuntimeError, AttributeError):  # the scheduler is lost, and the tasks are soon canceled
                return
            now_s = time.monotonic()
            if workers:
                has_come, since_s = True, None
                return
            if since_s is None:
                since_s = announced_s = now_s
            is_queued = spec.startswith("slurm") and cluster.workers
            if now_s - since_s > _PATIENCE_S and not is_queued:
                raise _no_worker_error(spec, has_come=has_come)
            if announce and now_s - announced_s > _ANNOUNCED_S:
                announced_s = now_s
                announce(_describe_waiting(spec, now_s - since_s))

        yield client.get_executor(pure=False, retries=_RETRIES), check_workers


def _no_worker_error(spec: str, *, has_come: bool) -> TracelabError:
    problem = f"--cluster {spec} has had no worker for {_PATIENCE_S} s"
    if has_come:
        return TracelabError(f"{problem}; check their memory, and ingest again: what is stored stays")
    return UsageError(f"{problem}; start some (`dask worker {spec}`), and ingest again")


def _describe_waiting(spec: str, waited_s: float) -> str:
    match = _SPEC.fullmatch(spec)
    if match and match["kind"] == "slurm":
        here = f"0 of {match['workers'] or 1} workers here"
        return f"--cluster {spec}: {here} after {waited_s:.0f} s; squeue lists their jobs, Ctrl-C cancels them"
    return f"--cluster {spec}: no worker here after {waited_s:.0f} s; Ctrl-C stops waiting"


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
        options = {"threads_per_worker": 1, "scheduler_kwargs": _NO_DASHBOARD, "silence_logs": logging.CRITICAL}
        return opened.enter_context(distributed.LocalCluster(n_workers=workers, **options))
    return _submit_jobs(workers or 1, opened)


def _submit_jobs(count: int, opened: ExitStack) -> Any:  # noqa: ANN401
    """Submit jobs to SLURM, each a worker. Raises UsageError where sbatch refuses them."""
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # it would print the traceback of a refusal
    options = _NO_DASHBOARD | importlib.import_module("dask").config.get("jobqueue.slurm.scheduler-options", {})
    try:
        jobs = _import_jobqueue().SLURMCluster(scheduler_options=options)
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
