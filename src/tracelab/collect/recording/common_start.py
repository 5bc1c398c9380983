"""Agree with the other ranks of a run on the step at which a recording begins: the first that is due names it."""

import contextlib
import math
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from tracelab.collect.recording.process_record import REQUEST

_STARTS = ".starts"
"""Folder in a run folder with a file for each recording that the ranks agreed on: 1, 2, …; its content is the step."""
_NOTICE_S = 1.0
"""Time that all ranks have to read the named step before they reach it, in seconds."""
_LEAD_STEPS = 2
"""Steps that ranks which communicate in each step may be apart: one has ended it, and another one is within it."""


class CommonStart:
    """The agreed beginnings of a run's recordings, as one rank knows them."""

    def __init__(self, run_folder: Path, since_s: float, count_ranks: Callable[[], int]) -> None:
        """Leave out what was agreed before the Unix time `since_s`, at which this process began."""
        self._folder = run_folder / _STARTS
        self._count_ranks = count_ranks
        self._number = 1
        while (named_s := self._named_s(self._number)) is not None and named_s < since_s:
            self._number += 1
        self._pace = Pace()

    @property
    def is_needed(self) -> bool:
        """Whether there are other ranks."""
        return self._count_ranks() > 1

    def find(self, steps: int, *, is_due: bool) -> int | None:
        """Return the number of steps after which the next recording begins on all ranks; None if none is due.

        `steps` have ended. Call it several times in `_NOTICE_S`. Where the file cannot be written, ranks begin alone.
        """
        self._pace.update(steps, time.monotonic())
        named = self._read(self._number)
        if named is None and is_due and (ahead := self._pace.count_steps(_NOTICE_S)) is not None:
            named = self._name(steps + ahead + _LEAD_STEPS)
        self._number += named is not None
        return named

    def _name(self, step: int) -> int | None:
        path = self._folder / str(self._number)
        try:
            self._folder.mkdir(exist_ok=True)
            with path.open("x", encoding="ascii") as file:
                file.write(f"{step}\n")
        except FileExistsError:
            return self._read(self._number)  # another rank is faster, and may still be writing
        except OSError:
            with contextlib.suppress(OSError):
                path.unlink()
        return step

    def _read(self, number: int) -> int | None:
        try:
            content = (self._folder / str(number)).read_text("ascii")
        except OSError:
            return None
        return int(content) if content.endswith("\n") else None

    def _named_s(self, number: int) -> float | None:
        try:
            return (self._folder / str(number)).stat().st_mtime
        except OSError:
            return None


class Pace:
    """How many steps a process takes per second, at most: since its last look, or since the first."""

    def __init__(self) -> None:
        self._first: tuple[int, float] | None = None
        self._last: tuple[int, float] | None = None
        self._per_s: float | None = None

    def update(self, steps: int, now_s: float) -> None:
        """Note how many steps have ended by now."""
        if not steps:  # before the first one, a program prepares
            return
        if self._first is None or self._last is None:
            self._first = self._last = steps, now_s
            return
        rates = [
            (steps - before) / (now_s - before_s)
            for before, before_s in (self._first, self._last)
            if now_s > before_s and steps > self._first[0]
        ]
        self._per_s = max(rates, default=None)
        self._last = steps, now_s

    def count_steps(self, seconds: float) -> int | None:
        """Return the steps in a time, rounded up; None before a second step."""
        return None if self._per_s is None else math.ceil(self._per_s * seconds)


def clear_requests(run_folder: Path) -> None:
    """Delete what requests of recordings, and their common beginnings, leave in a run folder."""
    with contextlib.suppress(OSError):
        (run_folder / REQUEST).unlink(missing_ok=True)
    shutil.rmtree(run_folder / _STARTS, ignore_errors=True)
