"""Cooperative cancellation of a rank, deferred while a profiler is flushing."""

import contextlib
from collections.abc import Iterator


class CanceledError(BaseException):
    """The parent canceled this rank or is gone. Not an Exception, so that no workload catches it."""


class Cancellation:
    """Whether this process was canceled, and whether that may interrupt what it is doing."""

    def __init__(self) -> None:
        self._requested = False
        self._deferrals = 0

    def request(self) -> None:
        """Interrupt the training, at once or as soon as no deferral is active. Only the first request counts."""
        if not self._requested:
            self._requested = True
            self.check()

    def check(self) -> None:
        """Raise CanceledError if it is due. A library may have caught and dropped an earlier one."""
        if self._requested and not self._deferrals:
            raise CanceledError

    @contextlib.contextmanager
    def deferred(self) -> Iterator[None]:
        """Finish the block before raising CanceledError: half a trace is useless."""
        self._deferrals += 1
        try:
            yield
        finally:
            self._deferrals -= 1
        self.check()

    def disable(self) -> None:
        """Never raise again: the run is over, and its last files must be written."""
        self._deferrals += 1
