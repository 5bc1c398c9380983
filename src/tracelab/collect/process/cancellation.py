"""Being told to stop: an exception that breaks off the training, and that waits while a profiler is at work."""

import contextlib
from collections.abc import Iterator


class CancelledError(BaseException):
    """The parent said to stop, or is gone; no Exception, so that no workload takes it for one of its own."""


class Cancellation:
    """Whether this process was told to stop, and whether that may break off what it is doing."""

    def __init__(self) -> None:
        self._told = False
        self._held = 0

    def tell(self) -> None:
        """Break off the work, at once or as soon as that may be. Once: what follows is left in peace."""
        if not self._told:
            self._told = True
            self.check()

    def check(self) -> None:
        """Break off here, if that is due. A library may have taken the exception for one of its own, and gone on."""
        if self._told and not self._held:
            raise CancelledError

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """What is done within is done to its end: half a trace is none."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1
        self.check()

    def end(self) -> None:
        """Say that the run is at its end: from here on nothing breaks off what it still writes."""
        self._held += 1
