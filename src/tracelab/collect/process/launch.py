"""Processes started, watched and ended: a crash, a hang or Ctrl-C of one never takes the parent with it."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO

GRACE_S = 20.0
"""What a process gets to end, once it is told to stop."""
SAVE_S = 300.0
"""What it gets at the time limit while it is seen to write what it recorded, which may take much longer than that."""
COLLATERAL_S = 10.0
"""What the other ranks get when one has failed: long enough to fail by themselves and say why."""
PARENT_PIPE = "TRACELAB_PARENT"
"""The variable that tells a process by which pipe it learns that its parent is gone."""
SAVING = "busy"
"""A file in a process's own folder that stands there while it writes down what was recorded."""
END_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that end a run, and let it write its last word."""
_LOOK_S = 0.05
_TAIL_BYTES = 64 << 10


class Interrupted(BaseException):
    """Ctrl-C, a scheduler's SIGTERM, a terminal that is gone; no Exception, so that nothing takes it for one."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number
        self.at_s = time.monotonic()


@dataclass(frozen=True)
class Worker:
    """One process under way; `scratch` is a folder of its own, where it says what only its parent need know."""

    rank: int
    process: "subprocess.Popen[bytes]"
    scratch: Path
    held: IO[bytes]
    """The end of a pipe that stays open as long as this process lives; its other end is the child's stdin."""

    @property
    def log(self) -> Path:
        """Everything that it printed."""
        return self.scratch / "log"

    @property
    def saves(self) -> bool:
        """Whether it writes what was recorded: the training process itself, or after its end a profiler around it."""
        return (self.scratch / SAVING).exists() or self._has_trained

    @property
    def _has_trained(self) -> bool:
        try:
            os.kill(int((self.scratch / "pid").read_text()), 0)
        except ProcessLookupError:
            return self.process.poll() is None
        except (OSError, ValueError):  # it has not begun
            return False
        return False


@dataclass(frozen=True)
class ProcessExit:
    """How a process ended; `code` is below 0 for a signal, `why` says who ended it: itself, timeout, or others."""

    rank: int
    code: int
    why: str
    output: str


def launch(argv: list[str], env: Mapping[str, str], rank: int, scratch: Path) -> Worker:
    """Start a process in a session of its own, so that Ctrl-C reaches this one alone.

    Its stdin is a pipe whose end means that the parent is gone; which pipe that is stands in its environment, for a
    profiler in between may give its child another stdin.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    theirs, ours = os.pipe()
    known = {**env, PARENT_PIPE: str(os.fstat(theirs).st_ino)}
    try:
        with (scratch / "log").open("wb") as log:
            process = subprocess.Popen(
                argv,
                env=known,
                stdin=theirs,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                close_fds=False,  # the lock of the folder is theirs, too; Python lets nothing else be inherited
            )
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    return Worker(rank, process, scratch, os.fdopen(ours, "wb"))


def supervise(workers: list[Worker], timeout_s: float | None) -> list[ProcessExit]:
    """Wait until all have ended. At the time limit all are told to stop; once one fails, the others soon are, too."""
    begun, why, told = time.monotonic(), "itself", 0.0
    first_failure: float | None = None
    saved: dict[int, float] = {}
    try:
        while running := [worker for worker in workers if worker.process.poll() is None]:
            now = time.monotonic()
            if first_failure is None and any(worker.process.poll() not in (None, 0) for worker in workers):
                first_failure = now
            if why == "itself" and timeout_s is not None and now - begun >= timeout_s:
                why, told = "timeout", now
                terminate(running)
            elif why == "itself" and first_failure is not None and now - first_failure >= COLLATERAL_S:
                why, told = "others", now
                terminate(running)
            elif why != "itself":
                if why == "timeout" and now - told < SAVE_S:
                    saved |= {worker.rank: now for worker in running if worker.saves}
                kill([worker for worker in running if now - saved.get(worker.rank, told) >= GRACE_S])
            time.sleep(_LOOK_S)
    except BaseException:
        shut_down(workers)
        raise
    kill(workers)  # what a worker left running: loaders of data, a profiler's helpers
    return [ProcessExit(worker.rank, worker.process.returncode, why, read_tail(worker.log)) for worker in workers]


def shut_down(workers: list[Worker]) -> None:
    """Tell all to stop, give them the time to write what they have, and end those that do not."""
    terminate(workers)
    until = time.monotonic() + GRACE_S
    while any(worker.process.poll() is None for worker in workers) and time.monotonic() < until:
        time.sleep(_LOOK_S)
    kill(workers)


def terminate(workers: list[Worker]) -> None:
    """Ask the training process itself, not a profiler around it, which would give up its report."""
    for worker in workers:
        if worker.process.poll() is None:
            with contextlib.suppress(OSError, ValueError):
                os.kill(int((worker.scratch / "pid").read_text()), signal.SIGTERM)
                continue
            worker.process.terminate()


def kill(workers: list[Worker]) -> None:
    """End the sessions of all, with everything that they started."""
    for worker in workers:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(worker.process.pid, signal.SIGKILL)
        worker.process.wait()
        worker.held.close()


def read_tail(path: Path) -> str:
    """The end of what a process printed."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


@contextlib.contextmanager
def raise_on_signals() -> Iterator[None]:
    """Ctrl-C, SIGTERM and a terminal that is gone raise `Interrupted` within this block, once.

    What follows is left in peace to clean up.
    """

    def interrupted(number: int, _frame: FrameType | None) -> None:
        for each in before:
            signal.signal(each, signal.SIG_IGN)
        raise Interrupted(number)

    before = {number: signal.signal(number, interrupted) for number in _heard()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def defer_signals() -> Iterator[list[Interrupted]]:
    """The same signals wait within this block, but for a part that is `interruptible`; gives those that came.

    torchrun sends them to every rank as soon as the process of one has ended: that must not cost the last word.
    """
    came: list[Interrupted] = []
    before = {number: signal.signal(number, lambda each, _: came.append(Interrupted(each))) for number in _heard()}
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _heard() -> list[signal.Signals]:
    """Signals that end a run; under nohup a terminal may go."""
    deaf = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [number for number in END_SIGNALS if number != signal.SIGHUP or not deaf]


def python_command(module: str, *arguments: str) -> list[str]:
    """The command line of a module of ours, under this interpreter."""
    return [sys.executable, "-X", "faulthandler", "-m", module, *arguments]


def count_oom_kills() -> int:
    """How many processes of this container the system has killed for want of memory; 0 where it does not say."""
    for path in (Path("/sys/fs/cgroup/memory.events"), Path("/sys/fs/cgroup/memory/memory.oom_control")):
        with contextlib.suppress(OSError, ValueError):
            counts = dict(line.split() for line in path.read_text().splitlines())
            return int(counts.get("oom_kill", 0))
    return 0
