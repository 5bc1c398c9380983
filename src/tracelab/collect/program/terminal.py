"""Give a program terminals for its output where the collector writes to one, so that progress bars and colors stay."""

import contextlib
import errno
import os
import signal
import sys
import termios
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType
from typing import IO


@dataclass(frozen=True)
class OutputTerminal:
    """A terminal that the program writes to, and whose output is copied to a terminal of the collector."""

    shown: IO[str]
    """The collector's stream."""
    ours: IO[bytes]
    """The end that reads the program's output."""
    theirs: int
    """The end for the program, which the collector closes once the program has it."""

    def copy_size(self) -> bool:
        """Give it the size of the collector's terminal, and return whether it had another one."""
        try:
            size, before = (termios.tcgetwinsize(end.fileno()) for end in (self.shown, self.ours))
            termios.tcsetwinsize(self.ours.fileno(), size)
        except (OSError, ValueError, termios.error):  # one of them is closed
            return False
        return size != before


@dataclass(frozen=True)
class OutputTerminals:
    """The terminals of a program: one for both of its streams, where they are shown on the same."""

    stdout: OutputTerminal | None
    stderr: OutputTerminal | None

    def close_theirs(self) -> None:
        """Close the ends of the program, which has them."""
        for end in {terminal.theirs for terminal in (self.stdout, self.stderr) if terminal}:
            os.close(end)

    def copy_size(self) -> bool:
        """Give them the size of the collector's terminals, and return whether one had another size."""
        changed = [terminal.copy_size() for terminal in (self.stdout, self.stderr) if terminal]
        return any(changed)


def open_terminals() -> OutputTerminals:
    """Open terminals for those streams of a program that this process shows on one.

    Two would lose the order of what the program writes to both streams.
    """
    stdout = _open_terminal(sys.stdout)
    if stdout and sys.stderr and sys.stderr.isatty() and _device(sys.stderr) == _device(sys.stdout):
        return OutputTerminals(stdout, stdout)
    return OutputTerminals(stdout, _open_terminal(sys.stderr))


def _device(stream: IO[str]) -> int:
    return os.fstat(stream.fileno()).st_rdev


def _open_terminal(shown: IO[str] | None) -> OutputTerminal | None:
    """Open a terminal like that of a stream; None where the stream is none, or the system has no further one."""
    try:
        if shown is None or not shown.isatty():
            return None
        ours, theirs = os.openpty()
    except (OSError, ValueError):
        return None
    modes = termios.tcgetattr(theirs)
    modes[1] &= ~termios.OPOST  # the collector's terminal adds the carriage returns
    termios.tcsetattr(theirs, termios.TCSANOW, modes)
    terminal = OutputTerminal(shown, os.fdopen(ours, "rb", buffering=0), theirs)
    terminal.copy_size()
    return terminal


@contextlib.contextmanager
def follow_size(terminals: OutputTerminals, group: int) -> Iterator[None]:
    """Pass changes of the window's size on to the terminals, and SIGWINCH to a process group."""
    if terminals == OutputTerminals(None, None) or threading.current_thread() is not threading.main_thread():
        yield
        return

    def resize(_number: int, _frame: FrameType | None) -> None:
        if terminals.copy_size():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGWINCH)

    before = signal.signal(signal.SIGWINCH, resize)
    resize(signal.SIGWINCH, None)  # a change since the program started had no handler
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, before)


@contextlib.contextmanager
def restore_input() -> Iterator[None]:
    """Restore the modes of the terminal that the program reads: a killed one may leave it without echo."""
    try:
        terminal = sys.stdin.fileno()
        before = termios.tcgetattr(terminal)
    except (AttributeError, OSError, ValueError, termios.error):
        yield
        return
    try:
        yield
    finally:
        with contextlib.suppress(OSError, termios.error):
            if os.tcgetpgrp(terminal) == os.getpgrp() and termios.tcgetattr(terminal) != before:
                termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def read_output(stream: IO[bytes], size: int) -> bytes:
    """Read output of the program; empty where every process has closed it, which a terminal reports as an error."""
    try:
        return os.read(stream.fileno(), size)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        return b""
