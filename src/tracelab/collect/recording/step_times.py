"""Write the time of each step of a program, in batches and on a thread of its own: a step costs one append."""

import json
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tracelab.collect.run_folder import JsonLines

_FLUSH_S = 0.1
_NULLS = ("epoch", "samples", "loss", "accuracy", "data_wait_ns")
_ROW: dict[str, Any] = {"start_ns": "%d", "dur_ns": "%d", "phase": "train", "step": "%d", **dict.fromkeys(_NULLS)}
_LINE = json.dumps(_ROW).replace('"%d"', "%d")
"""A row as JSON, to be filled with its start, duration and number: faster than to encode a dict."""


def format_step(start_ns: int, dur_ns: int, number: int) -> str:
    """Return the row of a step as JSON."""
    return _LINE % (start_ns, dur_ns, number)


class StepTimes:
    """The steps of one process: the CPU side's time between the ends of two steps."""

    def __init__(self, open_file: Callable[[], JsonLines]) -> None:
        self._open_file = open_file
        self._file: JsonLines | None = None
        self._ends: deque[int | tuple[int, int]] = deque()
        """End of each step that is not yet written; with the profiler's part of the step where it has one."""
        self._number = 0
        self._last_ns: int | None = None
        self._writing = threading.RLock()
        self._is_complete = False
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self.error: OSError | None = None

    def begin(self, *, with_step: bool) -> None:
        """Write every 0.1 s from here on; `with_step` starts the first step here, not at the end of the first."""
        self._last_ns = time.perf_counter_ns() if with_step else None
        self._thread = threading.Thread(target=self._write, name="tracelab-steps", daemon=True)
        self._thread.start()

    def note(self, now_ns: int) -> None:
        """End a step, and begin the next one."""
        self._ends.append(now_ns)

    def end(self, now_ns: int, overhead_ns: int) -> None:
        """End a step of which `overhead_ns` are the profiler's, and begin the next one."""
        self._ends.append((now_ns, overhead_ns))

    def flush(self) -> None:
        """Write the rows; a full disk ends the writing, never the program."""
        with self._writing:
            lines = self._format_lines()
            if self.error is not None or self._is_complete or not lines:
                return
            try:
                self._file = self._file or self._open_file()
                self._file.extend_lines(lines)
            except OSError as error:
                self.error = error

    def close(self) -> None:
        """Write what is left."""
        self._closed.set()
        with self._writing:
            self.flush()
            self._is_complete = True
            if self._file is not None and self.error is None:
                try:
                    self._file.close()
                except OSError as error:
                    self.error = error

    def abandon(self) -> None:
        """Forget everything in a forked child: the file is its parent's."""
        self._writing, self._ends, self._is_complete = threading.RLock(), deque(maxlen=0), True

    def _format_lines(self) -> list[str]:
        lines = []
        unix_ns = time.time_ns() - time.perf_counter_ns()
        for _ in range(len(self._ends)):
            end = self._ends.popleft()
            now_ns, overhead_ns = end if isinstance(end, tuple) else (end, 0)
            if self._last_ns is not None:
                dur_ns = now_ns - self._last_ns - overhead_ns
                lines.append(format_step(unix_ns + self._last_ns, dur_ns, self._number))
            self._number += 1
            self._last_ns = now_ns
        return lines

    def _write(self) -> None:
        while not self._closed.wait(_FLUSH_S):
            self.flush()


def steps_file(folder: Path, run: str, rank: int) -> JsonLines:
    """Create the file of steps of a rank."""
    return JsonLines(folder / f"steps.rank{rank}.jsonl", "steps/1", run, rank)
