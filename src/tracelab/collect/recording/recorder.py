"""Record the windows of one process: steps, the clock and requests begin and end recordings."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

from tracelab.collect.profiling.capture import NoProfiler, Profiler, step_range_name
from tracelab.collect.recording.main_thread import call_on_main_thread
from tracelab.collect.recording.step_times import StepTimes
from tracelab.collect.recording.window import Window


class ProgramProfiler(Profiler, Protocol):
    """A profiler of a program whose last step may have no end."""

    def note_unfinished(self, name: str) -> None:
        """Take the range of this name for something else than a step."""
        ...


_REQUEST_POLL_S = 0.25
_PATIENCE = 2.0
"""Multiple of the seconds to record after which a recording ends within a step."""


class Recorder:
    """Applies a window to a profiler. All methods but `request` run on the main thread and never raise."""

    def __init__(
        self,
        window: Window,
        profiler: ProgramProfiler,
        steps: StepTimes,
        *,
        on_change: Callable[[], None] = lambda: None,
        begins_with_step: bool = False,
    ) -> None:
        self.window = window
        self.profiler = profiler
        self.times = steps
        self.steps = 0
        """Steps that have ended."""
        self.windows = 0
        """Recordings that were begun."""
        self.problem: Exception | None = None
        """Why recording failed; the program goes on without it."""
        self.is_recording = False
        self.is_busy = False
        """Whether the profiler is starting, stopping or saving."""
        self._on_change = on_change
        self._begins_with_step = begins_with_step
        """Whether the first step begins where recording does, not at an unknown moment before its end."""
        self._requested = False
        self._prepared = False
        self._mark: contextlib.AbstractContextManager[Any] | None = None
        self._base_steps = 0
        """Steps at the begin of the program, of the recording, or at the end of the last one."""
        self._base_s = time.monotonic()
        self._overhead_ns = 0
        self._clock: threading.Thread | None = None
        self._closed = threading.Event()
        self._watched: tuple[Path, int | None] | None = None

    @property
    def is_done(self) -> bool:
        """Whether no recording will begin any more."""
        limit = self.window.files
        return (
            self.problem is not None
            or isinstance(self.profiler, NoProfiler)
            or (limit is not None and self.windows >= limit and not self.is_recording)
        )

    def begin(self, request_file: Path | None = None) -> None:
        """Begin at the program's start: record at once if the window begins there, and start the clock."""
        if request_file is not None and self.window.on_demand:
            self._watched = request_file, _touched_ns(request_file)
        if self._begins_with_step:
            self.times.begin()
        at_once = self.window.is_due(0, 0.0, requested=False) if self._begins_with_step else False
        if (at_once or self.window.begins_with_program) and not self.is_done:
            self._start()
        if not self.is_done:
            self._clock = threading.Thread(target=self._watch_clock, name="tracelab-clock", daemon=True)
            self._clock.start()

    def step(self) -> None:
        """End a step: outside a recording this counts it and notes its time."""
        now_ns = time.perf_counter_ns()
        number = self.steps
        self.steps += 1
        self._unmark()
        self.times.end(number, now_ns, self._overhead_ns)
        self._overhead_ns = 0
        if self.is_recording:
            if self.window.is_over(self.steps - self._base_steps, time.monotonic() - self._base_s):
                self._stop()
            else:
                self._mark_step()
        elif not self.is_done:
            self._begin_window()

    def request(self) -> None:
        """Begin a recording on demand: with the next step, or at once in a program without steps."""
        self._requested = True
        if not self.steps:
            call_on_main_thread(self._tick)

    def finish(self) -> None:
        """End the program: save a recording that is still running, and write the remaining steps."""
        self._closed.set()
        if self._mark is not None:
            self.profiler.note_unfinished(step_range_name(self.steps))
        self._unmark()
        if self.is_recording:
            self._stop()
        self.times.close()

    def abandon(self) -> None:
        """Forget everything in a forked child, which must not record."""
        self._closed.set()
        self.is_recording = False
        self.problem = self.problem or RuntimeError("a forked process is not recorded")

    def _begin_window(self) -> None:
        seconds = time.monotonic() - self._base_s
        steps = self.steps - self._base_steps
        if self.window.is_due(steps, seconds, requested=self._requested):
            self._start()
        elif not self._prepared and self.window.wait and steps + 1 == self.window.wait:
            self._call(self._prepare)  # a step ahead: the first use of a profiler takes long

    def _prepare(self) -> None:
        self._prepared = True
        self.profiler.prepare()

    def _start(self) -> None:
        self._requested = False

        def start() -> None:
            if not self._prepared:
                self._prepare()
            self.profiler.start()

        if self._call(start):
            self.is_recording = True
            self.windows += 1
            self._base_steps, self._base_s = self.steps, time.monotonic()
            with self._as_overhead():  # writing the record takes milliseconds, which are not the step's
                self._on_change()
            self._mark_step()

    def _stop(self) -> None:
        self.is_recording = self._prepared = False
        first = self._base_steps

        def stop() -> None:
            self.profiler.stop()
            self.profiler.save(None if self.window.files == 1 else first)

        self._call(stop)
        self._base_steps, self._base_s = self.steps, time.monotonic()
        with self._as_overhead():
            self.times.flush()
            self._on_change()

    def _call(self, action: Callable[[], None]) -> bool:
        """Call the profiler; a failure ends all recording, and the program goes on."""
        self.is_busy = True
        with self._as_overhead():
            try:
                action()
            except (RuntimeError, OSError, ValueError, AttributeError, ImportError) as error:
                self.problem = error
                self.is_recording = False
                self._on_change()
                return False
            finally:
                self.is_busy = False
        return True

    @contextlib.contextmanager
    def _as_overhead(self) -> Iterator[None]:
        """Leave the time of the block out of the time of the step."""
        begun_ns = time.perf_counter_ns()
        try:
            yield
        finally:
            self._overhead_ns += time.perf_counter_ns() - begun_ns

    def _mark_step(self) -> None:
        if self.steps or self._begins_with_step:
            self._mark = self.profiler.mark(step_range_name(self.steps))
            self._mark.__enter__()

    def _unmark(self) -> None:
        mark, self._mark = self._mark, None
        if mark is not None:
            mark.__exit__(None, None, None)

    def _watch_clock(self) -> None:
        """Wake the main thread when a moment or a request is due; ends with the last recording."""
        while not self.is_done and not self._closed.wait(self._pause_s()):
            if self._watched is not None and (touched := _touched_ns(self._watched[0])) != self._watched[1]:
                self._watched = self._watched[0], touched
                self._requested = True
            if self._needs_tick():
                call_on_main_thread(self._tick)

    def _pause_s(self) -> float:
        if self._watched is not None:
            return _REQUEST_POLL_S
        limit = self.window.seconds_limit if self.is_recording else self.window.after_s
        left = (limit or 0) - (time.monotonic() - self._base_s)
        return min(max(left, 0.01), 0.5) if limit is not None and left > -_REQUEST_POLL_S else _REQUEST_POLL_S

    def _needs_tick(self) -> bool:
        seconds = time.monotonic() - self._base_s
        if self.is_recording:
            limit = self.window.seconds_limit
            between_steps = self.steps > self._base_steps  # then the end of a step ends the recording
            return limit is not None and seconds >= limit * (_PATIENCE if between_steps else 1)
        return (
            not self.steps
            and not self.window.follows_steps
            and self.window.is_due(0, seconds, requested=self._requested)
        )

    def _tick(self) -> None:
        if self.is_busy or self._closed.is_set() or self.is_done or not self._needs_tick():
            return
        if not self.is_recording:
            self._start()
            return
        if self._mark is not None:
            self.profiler.note_unfinished(step_range_name(self.steps))
        self._unmark()
        self._stop()


def _touched_ns(path: Path) -> int | None:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None
