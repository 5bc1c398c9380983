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
from tracelab.collect.launch import (
    ENDING,
    GRACE_S,
    SAVE_S,
    End,
    Interrupted,
    Worker,
    interruptible,
    kill,
    launch,
    python,
    stop,
    tail,
)
from tracelab.collect.settings import changed
from tracelab.collect.sweep.matrix import Cell
from tracelab.collect.sweep.state import (
    NOT_RUN,
    OTHER_SETTINGS,
    RUNNING,
    error_of,
    failed,
    folder_of,
    set_back,
    state,
)
from tracelab.collect.sweep.values import words
from tracelab.errors import TracelabError, UsageError

LEAST_FREE_BYTES = 64 << 20
"""With less on the disk no cell is begun: it would fail for no reason of its own."""
_INTERRUPTED_CODES = tuple(128 + number for number in ENDING)
_TAKEN = "a run is being written there"
_OF_A_JOB = ("TORCHELASTIC_RUN_ID", "SLURM_STEP_ID")
"""Variables by which a process knows that it is a rank (collect/job.py)."""
_LOOK_S = 0.1
_SLACK_S = 60.0
"""What a run may take beyond its time limit to start, to stop and to write its traces, before it is ended from here."""


@dataclass(frozen=True)
class Done:
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


def chosen(cells: Sequence[Cell], states: Mapping[str, str], only: Sequence[str], redo: Sequence[str]) -> list[Cell]:
    """The cells to run: those not run yet or with other settings, and those whose status is to be done again.

    With `only` no others than those in these states.
    """
    wanted = set(only) if only else {NOT_RUN, OTHER_SETTINGS, *redo}
    return [cell for cell in cells if states[cell.run] in wanted - {RUNNING}]


def run(cells: Sequence[Cell], means: RunnerOptions, done: Callable[[Done], None]) -> None:
    """Run the cells. Raises Interrupted, and TracelabError where the disk is full: then the same command goes on later.

    A cell that another process has begun or ended meanwhile is left alone.
    """
    before = {cell.run: state(cell) for cell in cells}
    for cell in cells:
        if state(cell) != before[cell.run]:
            continue
        _check_space(cell.settings.out)
        begun = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="tracelab-", ignore_cleanup_errors=True) as scratch:
            end = _run_one(cell, before[cell.run], means, Path(scratch))
        try:
            _say_end(cell, end)
        except OSError as error:
            raise TracelabError(
                f"{folder_of(cell)}: cannot be written: {error.strerror}; make room, and give the same command again"
            ) from error
        found = state(cell)
        done(Done(cell, found, error_of(cell), time.monotonic() - begun))


def command(cell: Cell, before: str, means: RunnerOptions) -> list[str]:
    """The command line of a cell: the same entry as a person's, in a process of its own."""
    asked = changed(replace(cell.settings, force=before != NOT_RUN))
    train = means.train or tuple(python("tracelab", "collect", "train"))
    return [*means.launcher, *train, *words(cell.settings, {**asked, "out": cell.settings.out})]


def _run_one(cell: Cell, before: str, means: RunnerOptions, scratch: Path) -> End:
    limit = cell.settings.timeout_s
    begun, why = time.monotonic(), "itself"
    workers: list[Worker] = []
    try:
        with interruptible():
            workers.append(launch(command(cell, before, means), environment(means), 0, scratch / "0"))
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
            set_back(cell)
        raise
    except OSError as error:
        raise TracelabError(f"{command(cell, before, means)[0]}: cannot be started: {error.strerror}") from error
    kill(workers)
    return End(0, workers[0].process.returncode, why, tail(workers[0].log))


def _ended(workers: list[Worker]) -> None:
    """Let a run write what it has: it waits for its own ranks first."""
    stop(workers)
    until = time.monotonic() + 2 * GRACE_S
    while any(worker.process.poll() is None for worker in workers) and time.monotonic() < until:
        time.sleep(_LOOK_S)
    kill(workers)


def _say_end(cell: Cell, end: End) -> None:
    """A run that ended without a last word has one from here; else it would run again and again.

    One that found its folder taken by another process has not run at all.
    """
    if state(cell) == NOT_RUN and not (end.code == UsageError.exit_code and _TAKEN in end.output):
        failed(cell, *status.of_end(end, killed_for_memory=False))


def _check_space(out: Path) -> None:
    if shutil.disk_usage(out).free < LEAST_FREE_BYTES:
        raise TracelabError(
            f"{out}: the disk is full; make room, and give the same command again: it goes on from here"
        )


def environment(means: RunnerOptions) -> dict[str, str]:
    """This process's, with the checkout to import from.

    A run is no rank of the job that the sweep itself was started in: tasks of srun share the cells, a cell each.
    """
    here = str(Path(__file__).parents[3])
    known = os.environ.get("PYTHONPATH")
    own = {name: value for name, value in os.environ.items() if means.launcher or name not in _OF_A_JOB}
    return {**own, "PYTHONPATH": f"{here}{os.pathsep}{known}" if known else here}
