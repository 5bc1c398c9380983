"""Run the cells of a sweep one after another, each in its own process; a failed cell does not end the sweep."""

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tracelab.collect import status
from tracelab.collect.process.launch import (
    END_SIGNALS,
    GRACE_S,
    SAVE_S,
    Interrupted,
    ProcessExit,
    Worker,
    kill,
    launch,
    python_command,
    raise_on_signals,
    read_tail,
    terminate,
)
from tracelab.collect.settings import non_default_options
from tracelab.collect.sweep.matrix import Cell
from tracelab.collect.sweep.state import (
    NOT_RUN,
    OTHER_SETTINGS,
    RUNNING,
    cell_state,
    mark_failed,
    mark_not_run,
    read_error,
    run_folder_of,
)
from tracelab.collect.sweep.values import train_arguments
from tracelab.errors import TracelabError, UsageError

LEAST_FREE_BYTES = 64 << 20
"""Free disk space below which no cell starts: it would fail through no fault of its own."""
_INTERRUPTED_CODES = tuple(128 + number for number in END_SIGNALS)
_LOCKED = "another process is writing a run there"
_OF_A_JOB = ("TORCHELASTIC_RUN_ID", "SLURM_STEP_ID")
"""Variables that make a process a rank of a job (process/launcher_env.py)."""
_POLL_S = 0.1
_SLACK_S = 60.0
"""Time beyond its limit that a run has to start, stop and write its traces before the sweep ends it."""


@dataclass(frozen=True)
class CellResult:
    """The result of one cell."""

    cell: Cell
    status: str
    error: str | None
    seconds: float


@dataclass(frozen=True)
class RunnerOptions:
    """How to run cells."""

    launcher: tuple[str, ...] = ()
    """Command prefix, such as srun and its options."""
    train: tuple[str, ...] = ()
    """Command that replaces `tracelab collect train`."""
    report_progress: Callable[[str, float], None] = lambda _run, _seconds: None
    """Called repeatedly with name and seconds while a cell runs."""


def select_cells(
    cells: Sequence[Cell], states: Mapping[str, str], only: Sequence[str], redo: Sequence[str]
) -> list[Cell]:
    """Return the cells to run: not run yet, run with other settings, or with a status of `redo`; or those of `only`."""
    selected = set(only) if only else {NOT_RUN, OTHER_SETTINGS, *redo}
    return [cell for cell in cells if states[cell.run] in selected - {RUNNING}]


def run_cells(cells: Sequence[Cell], options: RunnerOptions, done: Callable[[CellResult], None]) -> None:
    """Run the cells, skipping those that another process started or finished in between.

    Raises Interrupted, and TracelabError if the disk is full; the same command resumes later.
    """
    before = {cell.run: cell_state(cell) for cell in cells}
    for cell in cells:
        if cell_state(cell) != before[cell.run]:
            continue
        _check_space(cell.settings.out)
        begun = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="tracelab-", ignore_cleanup_errors=True) as scratch:
            end = _run_one(cell, before[cell.run], options, Path(scratch))
        try:
            _record_exit(cell, end)
        except OSError as error:
            raise TracelabError(
                f"{run_folder_of(cell)}: cannot be written: {error.strerror}; free space, and run the command again"
            ) from error
        done(CellResult(cell, cell_state(cell), read_error(cell), time.monotonic() - begun))


def cell_command(cell: Cell, before: str, options: RunnerOptions) -> list[str]:
    """Return the command line of a cell, the same that a user would enter."""
    changed = non_default_options(replace(cell.settings, force=before != NOT_RUN))
    train = options.train or tuple(python_command("tracelab", "collect", "train"))
    return [*options.launcher, *train, *train_arguments(cell.settings, {**changed, "out": cell.settings.out})]


def _run_one(cell: Cell, before: str, options: RunnerOptions, scratch: Path) -> ProcessExit:
    limit = cell.settings.timeout_s
    begun, why = time.monotonic(), "itself"
    workers: list[Worker] = []
    try:
        with raise_on_signals():
            workers.append(launch(cell_command(cell, before, options), cell_environment(options), 0, scratch / "0"))
            while workers[0].process.poll() is None:
                seconds = time.monotonic() - begun
                options.report_progress(cell.run, seconds)
                if limit is not None and seconds > limit + SAVE_S + 2 * GRACE_S + _SLACK_S:
                    why = "timeout"
                    break
                time.sleep(_POLL_S)
    except Interrupted:
        _end_run(workers)
        if any(
            worker.process.returncode in (*_INTERRUPTED_CODES, -signal.SIGTERM, -signal.SIGKILL) for worker in workers
        ):
            mark_not_run(cell)
        raise
    except OSError as error:
        raise TracelabError(f"{cell_command(cell, before, options)[0]}: cannot be started: {error.strerror}") from error
    kill(workers)
    return ProcessExit(0, workers[0].process.returncode, why, read_tail(workers[0].log))


def _end_run(workers: list[Worker]) -> None:
    """Terminate a run and wait until it saved its results: it waits for its own ranks first."""
    terminate(workers)
    until = time.monotonic() + 2 * GRACE_S
    while any(worker.process.poll() is None for worker in workers) and time.monotonic() < until:
        time.sleep(_POLL_S)
    kill(workers)


def _record_exit(cell: Cell, end: ProcessExit) -> None:
    """Write the status of a run that ended without one, so that it does not run again and again.

    A run that found its folder locked by another process has not run at all.
    """
    if cell_state(cell) == NOT_RUN and not (end.code == UsageError.exit_code and _LOCKED in end.output):
        mark_failed(cell, *status.status_of_exit(end, killed_for_memory=False))


def _check_space(out: Path) -> None:
    if shutil.disk_usage(out).free < LEAST_FREE_BYTES:
        raise TracelabError(f"{out}: the disk is full; free space, and run the command again to resume")


def cell_environment(options: RunnerOptions) -> dict[str, str]:
    """Return this process's environment with the checkout to import from.

    A run is not a rank of the job that started the sweep: tasks of srun share the cells, one each.
    """
    here = str(Path(__file__).parents[3])
    known = os.environ.get("PYTHONPATH")
    own = {name: value for name, value in os.environ.items() if options.launcher or name not in _OF_A_JOB}
    return {**own, "PYTHONPATH": f"{here}{os.pathsep}{known}" if known else here}
