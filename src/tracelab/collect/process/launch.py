"""Start, supervise and end rank processes: a crash, hang or Ctrl-C of one never ends the parent."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO

from tracelab.foreign_text import strip_control_sequences

GRACE_S = 20.0
"""Time a process has to end after SIGTERM."""
SAVE_S = 300.0
"""Time it has at the time limit while it is saving what it recorded, which may take much longer."""
COLLATERAL_S = 10.0
"""Time the other ranks have when one failed: long enough to fail themselves and report why."""
PARENT_PIPE = "TRACELAB_PARENT"
"""Environment variable with the inode of the pipe whose end signals that the parent is gone."""
SAVING = "busy"
"""Name of a file that exists in a process's scratch folder while it is saving what it recorded."""
END_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that end a run after it wrote its final run.json."""
WARNING_SIGNALS = (signal.SIGUSR1, signal.SIGUSR2)
"""Signals by which a scheduler warns that the time of a job ends: they end a run in the same way, where it is ours."""
_POLL_S = 0.05
_TAIL_BYTES = 64 << 10


class Interrupted(BaseException):
    """Ctrl-C, a scheduler's SIGTERM, or a closed terminal. Not an Exception, so that no handler catches it."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number
        self.at_s = time.monotonic()
        self.is_repeated = False

    def repeat(self, _number: int, _frame: FrameType | None) -> None:
        """Handle a further signal, which ends the wait for a program that the first one interrupts."""
        self.is_repeated = True

    @property
    def cause(self) -> str:
        """What ended the run, in words."""
        return "interrupted" if self.number == signal.SIGINT else f"interrupted by {signal.Signals(self.number).name}"


@dataclass(frozen=True)
class Worker:
    """One running process; `scratch` is its folder for files that only its parent reads."""

    rank: int
    process: "subprocess.Popen[bytes]"
    scratch: Path
    held: IO[bytes]
    """End of a pipe that is open as long as this process lives; the other end is the child's stdin."""

    @property
    def log(self) -> Path:
        """File of everything it printed."""
        return self.scratch / "log"

    @property
    def saves(self) -> bool:
        """Whether it is saving a recording: the training process itself, or a profiler around it after its end."""
        return (self.scratch / SAVING).exists() or self._has_trained

    @property
    def _has_trained(self) -> bool:
        try:
            os.kill(int((self.scratch / "pid").read_text()), 0)
        except ProcessLookupError:
            return self.process.poll() is None
        except (OSError, ValueError):  # not started yet
            return False
        return False

    def terminate(self) -> None:
        """Send SIGTERM to the training process, not to a profiler around it, which would discard its report."""
        if self.process.poll() is None:
            with contextlib.suppress(OSError, ValueError):
                os.kill(int((self.scratch / "pid").read_text()), signal.SIGTERM)
                return
            self.process.terminate()

    def interrupt(self) -> bool:
        """Pass Ctrl-C on, and return whether the process may end by itself; a rank saves on SIGTERM instead."""
        return False

    def kill(self) -> None:
        """Kill its session, with everything that it started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.held.close()


@dataclass(frozen=True)
class ProcessExit:
    """How a process ended; `code` is negative for a signal, `why` is itself, timeout, others or interrupted."""

    rank: int
    code: int
    why: str
    output: str
    interruption: str = "interrupted"
    """What interrupted it, in words."""


def launch(argv: list[str], env: Mapping[str, str], rank: int, scratch: Path) -> Worker:
    """Start a process in its own session, so that Ctrl-C reaches this process alone.

    Its stdin is a pipe whose end signals that the parent is gone; the environment names the pipe, because a profiler
    in between may replace the stdin of its child.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    theirs, ours = os.pipe()
    environment = {**env, PARENT_PIPE: str(os.fstat(theirs).st_ino)}
    try:
        with (scratch / "log").open("wb") as log:
            process = subprocess.Popen(
                argv,
                env=environment,
                stdin=theirs,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                close_fds=False,  # the child shares the lock of the folder; Python makes no other file inheritable
            )
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    return Worker(rank, process, scratch, os.fdopen(ours, "wb"))


def supervise(workers: Sequence[Worker], timeout_s: float | None) -> list[ProcessExit]:
    """Wait until all have ended; terminate all at the time limit, and soon after one fails the others."""
    begun, why, terminated = time.monotonic(), "itself", 0.0
    first_failure: float | None = None
    saved: dict[int, float] = {}
    try:
        while running := [worker for worker in workers if worker.process.poll() is None]:
            now = time.monotonic()
            if first_failure is None and any(worker.process.poll() not in (None, 0) for worker in workers):
                first_failure = now
            if why == "itself" and timeout_s is not None and now - begun >= timeout_s:
                why, terminated = "timeout", now
                terminate(running)
            elif why == "itself" and first_failure is not None and now - first_failure >= COLLATERAL_S:
                why, terminated = "others", now
                terminate(running)
            elif why != "itself":
                if why == "timeout" and now - terminated < SAVE_S:
                    saved |= {worker.rank: now for worker in running if worker.saves}
                kill([worker for worker in running if now - saved.get(worker.rank, terminated) >= GRACE_S])
            time.sleep(_POLL_S)
    except BaseException as error:
        shut_down(workers, error if isinstance(error, Interrupted) else None)
        raise
    kill(workers)  # processes that a worker left running: data loaders, a profiler's helpers
    return [ProcessExit(worker.rank, worker.process.returncode, why, read_tail(worker.log)) for worker in workers]


def shut_down(workers: Sequence[Worker], interruption: Interrupted | None = None) -> None:
    """Terminate all, wait for them to save, and kill those that do not end.

    Ctrl-C first interrupts those that accept it; they have the same time, or until it is pressed again.
    """
    if interruption is not None and interruption.number == signal.SIGINT:
        interrupted = [worker for worker in workers if worker.interrupt()]
        _wait_for_end(interrupted, lambda: interruption.is_repeated)
    terminate(workers)
    _wait_for_end(workers)
    kill(workers)


def _wait_for_end(workers: Sequence[Worker], is_canceled: Callable[[], bool] = lambda: False) -> None:
    until = time.monotonic() + GRACE_S
    while any(worker.process.poll() is None for worker in workers) and time.monotonic() < until and not is_canceled():
        time.sleep(_POLL_S)


def terminate(workers: Sequence[Worker]) -> None:
    """Send SIGTERM to all that run."""
    for worker in workers:
        worker.terminate()


def kill(workers: Sequence[Worker]) -> None:
    """Kill all, with everything they started."""
    for worker in workers:
        worker.kill()


def read_tail(path: Path) -> str:
    """Return the end of a process's output, without colors."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            return strip_control_sequences(file.read().decode(errors="replace"))
    except OSError:
        return ""


@contextlib.contextmanager
def raise_on_signals(
    is_passed_on: Callable[[int], bool] = lambda _: False,
    signals: Sequence[signal.Signals] = (*END_SIGNALS, *WARNING_SIGNALS),
) -> Iterator[None]:
    """Raise `Interrupted` on the first Ctrl-C, SIGTERM or closed terminal; it counts later ones during cleanup.

    `is_passed_on` may pass a signal on to the program instead, and returns whether it did.
    """

    def raise_interrupted(number: int, _frame: FrameType | None) -> None:
        if is_passed_on(number):
            return
        interruption = Interrupted(number)
        for each in before:
            signal.signal(each, interruption.repeat)
        raise interruption

    before = {number: signal.signal(number, raise_interrupted) for number in _handled(signals)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def defer_signals(
    signals: Sequence[signal.Signals] = (*END_SIGNALS, *WARNING_SIGNALS),
) -> Iterator[list[Interrupted]]:
    """Collect the same signals instead of handling them, except inside `raise_on_signals`; yields the list.

    torchrun sends them to every rank as soon as one process ended: the outcome must still be written.
    """
    pending: list[Interrupted] = []
    before = {
        number: signal.signal(number, lambda each, _: pending.append(Interrupted(each))) for number in _handled(signals)
    }
    try:
        yield pending
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _handled(signals: Sequence[signal.Signals]) -> list[signal.Signals]:
    """Return the signals that end a run: Ctrl-C, SIGTERM, and others unless they are ignored, as SIGHUP under nohup."""
    always = (signal.SIGINT, signal.SIGTERM)
    return [number for number in signals if number in always or signal.getsignal(number) is not signal.SIG_IGN]


def python_command(module: str, *arguments: str) -> list[str]:
    """Return the command line that runs a module with this interpreter."""
    return [sys.executable, "-X", "faulthandler", "-m", module, *arguments]


def count_oom_kills() -> int:
    """Return how many processes of this container the out-of-memory killer ended; 0 if unknown."""
    for path in (Path("/sys/fs/cgroup/memory.events"), Path("/sys/fs/cgroup/memory/memory.oom_control")):
        with contextlib.suppress(OSError, ValueError):
            counts = dict(line.split() for line in path.read_text().splitlines())
            return int(counts.get("oom_kill", 0))
    return 0
