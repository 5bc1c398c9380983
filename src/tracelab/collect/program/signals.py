"""Pass signals that do not concern the recording on to the program, which would have them without tracelab."""

import contextlib
import signal
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

_NAMES = ("SIGUSR1", "SIGUSR2", "SIGCONT", "SIGQUIT", "SIGALRM", "SIGIO", "SIGPWR", "SIGXCPU")
PASSED_ON = frozenset(
    {signal.Signals[name] for name in _NAMES if name in signal.Signals.__members__}
    | set(range(getattr(signal, "SIGRTMIN", 0), getattr(signal, "SIGRTMAX", -1) + 1))
)
"""Signals that neither end the run nor concern a terminal; macOS lacks some of them."""


@contextlib.contextmanager
def handle_signals(numbers: Iterable[int], handle: Callable[[int], object]) -> Iterator[None]:
    """Call a function for each of these signals to this process; ignored ones stay so, here and in the program."""
    handled = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, lambda each, _: handle(each)) for number in handled}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def handles_signal(pid: int, number: int) -> bool:
    """Return whether a process of this node catches or ignores a signal; False where that is not known."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text("utf-8", "replace").splitlines()
    except OSError:
        return False
    masks = [int(line.split()[1], 16) for line in lines if line.startswith(("SigCgt:", "SigIgn:"))]
    return any(mask >> (number - 1) & 1 for mask in masks)
