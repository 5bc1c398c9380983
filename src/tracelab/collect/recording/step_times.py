"""Write the time of each step of a program, in batches, so that a step costs less than writing a line."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tracelab.collect.run_folder import JsonLines

_FLUSH_NS = 500_000_000
_NULLS = ("epoch", "samples", "loss", "accuracy", "data_wait_ns")
_ROW: dict[str, Any] = {"start_ns": None, "dur_ns": None, "phase": "train", "step": None, **dict.fromkeys(_NULLS)}


class StepTimes:
    """The steps of one process: the CPU side's time between the ends of two steps."""

    def __init__(self, open_file: Callable[[], JsonLines]) -> None:
        self._open_file = open_file
        self._file: JsonLines | None = None
        self._rows: list[tuple[int, int, int]] = []
        self._flushed_ns = time.perf_counter_ns()
        self._last_ns: int | None = None
        self.error: OSError | None = None

    def begin(self) -> None:
        """Start the first step now; without this call it starts at the end of the first."""
        self._last_ns = time.perf_counter_ns()

    def end(self, number: int, now_ns: int, overhead_ns: int) -> None:
        """End a step, and begin the next one; `overhead_ns` of it is the profiler's."""
        if self._last_ns is not None:
            dur_ns = now_ns - self._last_ns - overhead_ns
            self._rows.append((number, time.time_ns() - (now_ns - self._last_ns), dur_ns))
            if now_ns - self._flushed_ns > _FLUSH_NS:
                self.flush()
        self._last_ns = now_ns

    def flush(self) -> None:
        """Write the rows; a full disk ends the writing, never the program."""
        rows, self._rows = self._rows, []
        self._flushed_ns = time.perf_counter_ns()
        if self.error is not None or not rows:
            return
        try:
            self._file = self._file or self._open_file()
            self._file.extend(_ROW | {"start_ns": start, "dur_ns": dur, "step": number} for number, start, dur in rows)
        except OSError as error:
            self.error = error

    def close(self) -> None:
        """Write what is left."""
        self.flush()
        if self._file is not None and self.error is None:
            try:
                self._file.close()
            except OSError as error:
                self.error = error


def steps_file(folder: Path, run: str, rank: int) -> JsonLines:
    """Create the file of steps of a rank."""
    return JsonLines(folder / f"steps.rank{rank}.jsonl", "steps/1", run, rank)
