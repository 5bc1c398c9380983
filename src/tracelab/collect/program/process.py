"""Start a program with its output passed on, and stop it with everything that it started."""

import contextlib
import errno
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tracelab.collect.process.launch import SAVING, Worker
from tracelab.collect.program.settings import RECORDING
from tracelab.collect.program.signals import handles_signal
from tracelab.collect.program.terminal import OutputTerminals, open_terminals, read_output
from tracelab.collect.recording.process_record import TASK, is_running, read_records

STARTUP = Path(__file__).parents[1] / "startup"
"""Folder whose sitecustomize installs the recording."""
_NO_OUTPUT = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_OUTPUT_END_S = 2.0
_BLOCK_BYTES = 1 << 16


@dataclass(frozen=True)
class ProgramWorker(Worker):
    """A running program; `processes` has a folder for each recorded process of it."""

    processes: Path
    terminals: OutputTerminals
    copiers: tuple[threading.Thread, ...]
    log_files: tuple[IO[bytes], ...]
    output_errors: list[str]
    """Why its output could not be passed on, once for each of its two streams."""
    is_wrapped: bool
    """Whether nsys or ncu runs the program, and must live to write its report."""

    @property
    def errors(self) -> Path:
        """File of what it printed to its standard error; on one terminal for both, of all that it printed."""
        return self.scratch / "errors"

    @property
    def saves(self) -> bool:
        """Whether a process is saving a recording."""
        return any(self.processes.glob(f"*/{SAVING}"))

    def terminate(self) -> None:
        """Send SIGTERM to every process of the program; launchers start ranks in sessions of their own."""
        pids = recorded_pids(self.processes)
        if not (self.is_wrapped and pids) and self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGTERM)
            pids = [pid for pid in pids if _session(pid) != self.process.pid]
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGTERM)

    def interrupt(self) -> bool:
        """Send SIGINT to what a terminal's Ctrl-C would reach; under nsys or ncu to the program alone."""
        pids = recorded_pids(self.processes) if self.is_wrapped else []
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGINT)
        if not pids and self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGINT)
        return True

    def pass_on(self, number: int) -> None:
        """Send a signal to the program's first process, as if it ran alone; under nsys or ncu to the recorded ones."""
        is_running_alone = not self.is_wrapped and self.process.poll() is None
        for pid in recorded_pids(self.processes) if self.is_wrapped else [self.process.pid] * is_running_alone:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)

    def pass_on_hangup(self, number: int) -> bool:
        """Pass SIGHUP on to a recorded script that handles it, and return whether it does.

        A launcher would end its ranks by SIGHUP, and their recordings with them.
        """
        if number != signal.SIGHUP:
            return False
        pids = [pid for pid in recorded_pids(self.processes) if self.is_wrapped or pid == self.process.pid]
        if not any(handles_signal(pid, number) for pid in pids):
            return False
        self.pass_on(number)
        return True

    def kill(self) -> None:
        """Kill every process of the program, and pass on the rest of its output."""
        super().kill()
        for pid in recorded_pids(self.processes):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        for copier in self.copiers:
            copier.join(_OUTPUT_END_S)
        for file in self.log_files:
            file.close()


def recorded_pids(processes: Path) -> list[int]:
    """Return the recorded processes of this node that still run; `processes` has a folder for each."""
    host = os.uname().nodename
    pids = [record["pid"] for record in read_records(processes) if record.get("host") == host]
    return [pid for pid in pids if is_running(pid) and _has_task(pid, processes / TASK)]


def start_program(
    command: Sequence[str], environment: Mapping[str, str], scratch: Path, processes: Path, *, is_wrapped: bool
) -> ProgramWorker:
    """Start a program in its own session; its output goes to this process's output and to a log.

    Where this process writes to a terminal, so does the program: to one of its own, which is no controlling terminal.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    theirs, ours = os.pipe()  # open as long as the worker; the program does not read it
    os.close(theirs)
    terminals = open_terminals()
    stdout, stderr = terminals.stdout, terminals.stderr
    try:
        process = subprocess.Popen(
            list(command),
            env=dict(environment),
            stdin=None if _may_read_input() else subprocess.DEVNULL,
            stdout=stdout.theirs if stdout else subprocess.PIPE,
            stderr=stderr.theirs if stderr else subprocess.PIPE,
            start_new_session=True,
            close_fds=False,  # the program shares the lock of the folder; Python makes no other file inheritable
        )
    finally:
        terminals.close_theirs()
    log, errors = ((scratch / name).open("ab", buffering=0) for name in ("log", "errors"))
    copiers = []
    failures: list[str] = []
    out, err = stdout.ours if stdout else process.stdout, stderr.ours if stderr else process.stderr
    outputs: list[tuple[Any, Sequence[IO[bytes]], IO[str]]] = [(err, (log, errors), sys.stderr)]
    if out is not err:
        outputs.append((out, (log,), sys.stdout))
    for stream, logs, target in outputs:
        arguments = (stream, logs, target, failures)
        copier = threading.Thread(target=_copy, args=arguments, name="tracelab-output", daemon=True)
        copier.start()
        copiers.append(copier)
    held = os.fdopen(ours, "wb")
    return ProgramWorker(
        0,
        process,
        scratch,
        held,
        processes,
        terminals,
        tuple(copiers),
        (log, errors),
        failures,
        is_wrapped,
    )


def _may_read_input() -> bool:
    """Return whether there is an input to pass on: a terminal only where this process is in its foreground.

    The program reads the terminal from a session of its own, so that it would not stop in the background.
    """
    if sys.stdin is None or sys.stdin.closed:
        return False
    try:
        return not sys.stdin.isatty() or os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except OSError:
        return False


def program_environment(task: Path) -> dict[str, str]:
    """Return this process's environment with the start-up folder first on the PYTHONPATH."""
    known = os.environ.get("PYTHONPATH")
    path = f"{STARTUP}{os.pathsep}{known}" if known else str(STARTUP)
    return {**os.environ, "PYTHONPATH": path, RECORDING: str(task)}


def _copy(stream: IO[bytes], logs: Sequence[IO[bytes]], target: IO[str], failures: list[str]) -> None:
    """Copy output to logs and to a stream of this process until the program closes it.

    Where this stream is a full disk or a pipe that its reader has closed, the program finds its own closed, too.
    """
    writers: list[Callable[[bytes], object]] = [log.write for log in logs]
    writers.append(lambda block: _write_text(target, block))
    last = writers[-1]
    while block := read_output(stream, _BLOCK_BYTES):
        for write in tuple(writers):
            try:
                write(block)
            except (OSError, ValueError) as error:  # others: a closed terminal
                writers.remove(write)
                if write is last and isinstance(error, OSError) and error.errno in _NO_OUTPUT:
                    failures.append(str(error.strerror))
                    stream.close()
                    return
    stream.close()


def _write_text(target: IO[str], block: bytes) -> None:
    buffer = getattr(target, "buffer", None)
    if buffer is None:  # a stream that holds text alone
        target.write(block.decode("utf-8", "replace"))
    else:
        buffer.write(block)
    target.flush()


def _session(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except (ProcessLookupError, PermissionError):
        return None


def _has_task(pid: int, task: Path) -> bool:
    """Whether the process of this number is one of this program's: numbers are used again."""
    path = Path(f"/proc/{pid}/environ")
    try:
        return f"{RECORDING}={task}".encode() in path.read_bytes().split(b"\0")
    except OSError:
        return not Path("/proc/self/environ").exists()
