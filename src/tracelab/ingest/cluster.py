"""Open a Dask cluster as an executor: local processes, a running scheduler, or SLURM jobs."""

import importlib
import logging
import re
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from typing import Any

from tracelab.errors import UsageError

_RETRIES = 2
"""How often a task starts again after an error of its worker."""

_PATIENCE_S = 300
"""How long tasks wait for the first worker of a running scheduler, which may start workers once it has tasks."""

_SPEC = re.compile(r"(?P<kind>local|slurm)(:(?P<workers>[1-9]\d{0,5}))?|(?P<address>(tcp|tls|ucx)://\S+)")


def check_spec(spec: str) -> None:
    """Raise UsageError for a text that names no cluster, and where Dask is missing."""
    match = _SPEC.fullmatch(spec)
    if match is None:
        raise UsageError(
            f"{spec!r} is not a cluster; write local:N (N processes), slurm:N (N jobs), "
            "or the address of a Dask scheduler, such as tcp://host:8786"
        )
    try:
        import distributed  # noqa: F401

        if match["kind"] == "slurm":
            import dask_jobqueue  # noqa: F401
    except ImportError as error:
        raise UsageError(f"--cluster needs Dask ({error}); run `pip install 'tracelab[cluster]'`") from error


@contextmanager
def open_executor(spec: str) -> Iterator[tuple[Executor, Callable[[], None]]]:
    """Open the cluster that a checked text names. A task whose worker dies runs again on another worker.

    The function beside the executor is called once tasks are submitted: it waits for the first worker of a running
    scheduler, and raises UsageError where none comes. Jobs of SLURM may be in a queue for hours, and are waited for.

    Raises UsageError where no scheduler answers, or where a site has no configuration for SLURM.
    """
    distributed: Any = importlib.import_module("distributed")  # parts of it have no type information
    with ExitStack() as opened:
        try:
            client = opened.enter_context(distributed.Client(_open_cluster(distributed, spec, opened)))
        except (OSError, ValueError) as error:
            raise UsageError(f"--cluster {spec} cannot be opened: {str(error).splitlines()[0]}") from error

        def wait_for_worker() -> None:
            if _is_address(spec):
                try:
                    client.wait_for_workers(1, timeout=_PATIENCE_S)
                except TimeoutError as error:
                    raise UsageError(
                        f"--cluster {spec} has no worker after {_PATIENCE_S} s; "
                        f"start some (`dask worker {spec}`), and ingest again"
                    ) from error

        yield client.get_executor(pure=False, retries=_RETRIES), wait_for_worker


def worker_died(error: BaseException) -> bool:
    """Return whether this is the error of a task whose workers all died."""
    from distributed import KilledWorker

    return isinstance(error, KilledWorker)


def _is_address(spec: str) -> bool:
    match = _SPEC.fullmatch(spec)
    return match is None or match["address"] is not None


def _open_cluster(distributed: Any, spec: str, opened: ExitStack) -> Any:  # noqa: ANN401
    """Return what Client takes: an address, or a cluster."""
    match = _SPEC.fullmatch(spec)
    if match is None or _is_address(spec):
        return spec
    workers = int(match["workers"]) if match["workers"] else None
    if match["kind"] == "local":
        options = {"threads_per_worker": 1, "dashboard_address": None, "silence_logs": logging.CRITICAL}
        return opened.enter_context(distributed.LocalCluster(n_workers=workers, **options))
    return _submit_jobs(workers or 1, opened)


def _submit_jobs(count: int, opened: ExitStack) -> Any:  # noqa: ANN401
    """Submit jobs to SLURM, each a worker. Raises UsageError where sbatch refuses them."""
    if shutil.which("sbatch") is None:
        raise UsageError("--cluster slurm needs sbatch, which is not on PATH; run this on a login node of the cluster")
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
