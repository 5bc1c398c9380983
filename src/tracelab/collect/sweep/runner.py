"""The cells of a sweep, one after another, a process each: whatever one does, the next one runs."""

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
"""With less on the disk no cell is begun: it would fail for no reason of its own."""
_INTERRUPTED_CODES = tuple(128 + number for number in END_SIGNALS)
_LOCKED = "another process is writing a run there"
_OF_A_JOB = ("TORCHELASTIC_RUN_ID", "SLURM_STEP_ID")
"""Variables by which a process knows that it is a rank (process/launcher_env.py)."""
_LOOK_S = 0.1
_SLACK_S = 60.0
"""What a run may take beyond its time limit to start, to stop and to write its traces, before it is ended from here."""


@dataclass(frozen=True)
class CellResult:
    """What became of one cell."""

    cell: Cell
    status: str
    error: str | None
    seconds: float


@dataclass(frozen=True)
class RunnerOptions:
    """How cells are run."""

    launcher: tuple[str, ...] = ()
    """Words that stand before the command: srun and its options."""
    train: tuple[str, ...] = ()
    """The command in place of `tracelab collect train`."""
    tell: Callable[[str, float], None] = lambda _run, _seconds: None
    """Told again and again while a cell runs."""


def select_cells(
    cells: Sequence[Cell], states: Mapping[str, str], only: Sequence[str], redo: Sequence[str]
) -> list[Cell]:
    """The cells to run: those not run yet or with other settings, and those whose status is to be done again.

    With `only` no others than those in these states.
    """
    wanted = set(only) if only else {NOT_RUN, OTHER_SETTINGS, *redo}
    return [cell for cell in cells if states[cell.run] in wanted - {RUNNING}]


def run_cells(cells: Sequence[Cell], means: RunnerOptions, done: Callable[[CellResult], None]) -> None:
    """Run the cells. Raises Interrupted, and TracelabError where the disk is full: then the same command goes on later.

    A cell that another process has begun or ended meanwhile is left alone.
    """
    before = {cell.run: cell_state(cell) for cell in cells}
    for cell in cells:
        if cell_state(cell) != before[cell.run]:
            continue
        _check_space(cell.settings.out)
        begun = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="tracelab-", ignore_cleanup_errors=True) as scratch:
            end = _run_one(cell, before[cell.run], means, Path(scratch))
        try:
            _say_end(cell, end)
        except OSError as error:
            raise TracelabError(
                f"{run_folder_of(cell)}: cannot be written: {error.strerror}; free space, and run the command again"
            ) from error
        found = cell_state(cell)
        done(CellResult(cell, found, read_error(cell), time.monotonic() - begun))


def cell_command(cell: Cell, before: str, means: RunnerOptions) -> list[str]:
    """The command line of a cell: the same entry as a person's, in a process of its own."""
    asked = non_default_options(replace(cell.settings, force=before != NOT_RUN))
    train = means.train or tuple(python_command("tracelab", "collect", "train"))
    return [*means.launcher, *train, *train_arguments(cell.settings, {**asked, "out": cell.settings.out})]


def _run_one(cell: Cell, before: str, means: RunnerOptions, scratch: Path) -> ProcessExit:
    limit = cell.settings.timeout_s
    begun, why = time.monotonic(), "itself"
    workers: list[Worker] = []
    try:
        with raise_on_signals():
            workers.append(launch(cell_command(cell, before, means), cell_environment(means), 0, scratch / "0"))
            while workers[0].process.poll() is None:
                seconds = time.monotonic() - begun
                means.tell(cell.run, seconds)
                if limit is not None and seconds > limit + SAVE_S + 2 * GRACE_S + _SLACK_S:
                    why = "timeout"
                    break
                time.sleep(_LOOK_S)
    except Interrupted:
        _ended(workers)
        if any(
            worker.process.returncode in (*_INTERRUPTED_CODES, -signal.SIGTERM, -signal.SIGKILL) for worker in workers
        ):
            mark_not_run(cell)
        raise
    except OSError as error:
        raise TracelabError(f"{cell_command(cell, before, means)[0]}: cannot be started: {error.strerror}") from error
    kill(workers)
    return ProcessExit(0, workers[0].process.returncode, why, read_tail(workers[0].log))


def _ended(workers: list[Worker]) -> None:
    """Let a run write what it has: it waits for its own ranks first."""
    terminate(workers)
    until = time.monotonic() + 2 * GRACE_S
    while any(worker.process.poll() is None for worker in workers) and time.monotonic() < until:
        time.sleep(_LOOK_S)
    kill(workers)


def _say_end(cell: Cell, end: ProcessExit) -> None:
    """A run that ended without a last word has one from here; else it would run again and again.

    One that found its folder taken by another process has not run at all.
    """
    if cell_state(cell) == NOT_RUN and not (end.code == UsageError.exit_code and _LOCKED in end.output):
        mark_failed(cell, *status.status_of_exit(end, killed_for_memory=False))


def _check_space(out: Path) -> None:
    if shutil.disk_usage(out).free < LEAST_FREE_BYTES:
        raise TracelabError(f"{out}: the disk is full; free space, and run the command again: it goes on from here")


def cell_environment(means: RunnerOptions) -> dict[str, str]:
    """This process's, with the checkout to import from.

    A run is no rank of the job that the sweep itself was started in: tasks of srun share the cells, a cell each.
    """
    here = str(Path(__file__).parents[3])
    known = os.environ.get("PYTHONPATH")
    own = {name: value for name, value in os.environ.items() if means.launcher or name not in _OF_A_JOB}
    return {**own, "PYTHONPATH": f"{here}{os.pathsep}{known}" if known else here}
