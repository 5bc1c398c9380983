"""Record the windows of one process: steps, the clock and requests begin and end recordings."""

import contextlib
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

from tracelab.collect.disk_errors import KeptTraceError
from tracelab.collect.profiling.capture import NoProfiler, Profiler, ProfilerError, step_range_name
from tracelab.collect.recording.common_start import CommonStart
from tracelab.collect.recording.owner import Owner, call_on_main_thread
from tracelab.collect.recording.step_times import StepTimes
from tracelab.collect.recording.window import Window
from tracelab.collect.status import one_line


class RecordingError(RuntimeError):
    """A recording that cannot go on, with the reason as a sentence."""


class ProgramProfiler(Profiler, Protocol):
    """A profiler of a program whose last step may have no end."""

    def note_unfinished(self, name: str) -> None:
        """Take the range of this name for something else than a step."""
        ...

    def discard(self) -> None:
        """Forget what was recorded since the last start."""
        ...

    def leave_to_parent(self) -> None:
        """Leave the recording to the parent of this process, which was forked."""
        ...


PROGRAM_START = "Program start"
"""Range from the begin of a recording that begins with the program to the end of its first step."""
_REQUEST_POLL_S = 0.25
_PATIENCE = 2.0
"""Multiple of the seconds to record after which a recording ends within a step."""
_NEVER = sys.maxsize
_recorders: "weakref.WeakSet[Recorder]" = weakref.WeakSet()


class Recorder:
    """Applies a window to a profiler, on the thread that takes the steps. The methods never raise."""

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
        self.recorded_steps = 0
        """Steps that were recorded from their begin to their end, in all recordings that are saved."""
        self.recorded_ranges: list[list[int]] = []
        """First and last number of such steps that follow each other."""
        self.windows = 0
        """Recordings that were begun, less one that could not be saved."""
        self.lost = ""
        """That a recording could not be saved, as the end of a sentence; empty where all were."""
        self.problem: Exception | None = None
        """Why recording failed; the program goes on without it."""
        self.note: str | None = None
        """How what was recorded differs from what was requested."""
        self.is_recording = False
        self.is_requested = False
        """Whether a recording was requested that has not begun."""
        self._is_calling = False
        self._on_change = on_change
        self._begins_with_step = begins_with_step
        """Whether the first step begins where recording does, not at an unknown moment before its end."""
        self._next = 0
        """Number of steps at whose end there is something to do; the ends before it are only noted."""
        self._note_end = steps.note
        self._lock = threading.RLock()
        self._owner = Owner(self._end_with_owner)
        self._prepared = False
        self._yielded = False
        self._mark: contextlib.AbstractContextManager[Any] | None = None
        self._mark_name = ""
        self._whole_steps = range(0)
        """Numbers of the steps that the open recording has from their begin to their end."""
        self._base_steps = 0
        """Steps at the begin of the program, of the recording, or at the end of the last one."""
        self._base_s = time.monotonic()
        self._overhead_ns = 0
        self._clock: threading.Thread | None = None
        self._closed = threading.Event()
        self._watched: tuple[Path, int | None] | None = None
        self._common_start: CommonStart | None = None
        self._begin_at: int | None = None
        """Number of steps at whose end the next recording begins on all ranks, once they have agreed on it."""

    @property
    def is_busy(self) -> bool:
        """Whether the profiler is starting, stopping or saving, or this thread is at the end of a step."""
        return self._is_calling or self._owner.is_held

    @property
    def is_done(self) -> bool:
        """Whether no recording will begin any more."""
        limit = self.window.files
        return (
            self.problem is not None
            or self._yielded
            or isinstance(self.profiler, NoProfiler)
            or (limit is not None and self.windows >= limit and not self.is_recording)
        )

    def begin(
        self,
        request_file: Path | None = None,
        since_s: float = float("inf"),
        common_start: CommonStart | None = None,
    ) -> None:
        """Begin at the program's start: record at once if the window begins there, and start the clock.

        A request since this Unix time counts, though the recording could not yet see it. With `common_start`, what
        begins at a moment or on request begins at the same step on all ranks.
        """
        if self.window.on_demand or self.window.after_s:
            self._common_start = common_start
        if request_file is not None and self.window.on_demand:
            touched_ns = _touched_ns(request_file)
            self._watched = request_file, touched_ns
            self.is_requested = touched_ns is not None and touched_ns >= since_s * 1e9
        _recorders.add(self)
        self.times.begin(with_step=self._begins_with_step)
        at_once = self.window.is_due(0, 0.0, requested=False) if self._begins_with_step else False
        if (at_once or self.window.begins_with_program) and not self.is_done:
            self._start()
        if not self.is_done:
            self._clock = threading.Thread(target=self._watch_clock, name="tracelab-clock", daemon=True)
            self._clock.start()
        self._plan()

    def step(self) -> None:
        """End a step: where there is nothing to do, this counts it and notes its end."""
        now_ns = time.perf_counter_ns()
        self.steps += 1
        if self.steps < self._next:
            self._note_end(now_ns)
        else:
            self._end_step(now_ns)

    def request(self, *, alone: bool = False) -> None:
        """Begin a recording on demand: with the next step, or at once in a program without steps.

        Of several ranks, all begin at a step soon; `alone`, this one begins with its next step.
        """
        if alone:
            self._begin_at = self.steps + 1
        self.is_requested = True
        self._next = 0
        if not self.steps:
            call_on_main_thread(self._tick)

    def finish(self) -> None:
        """End the program: save a recording that is still running, and write the remaining steps."""
        self._closed.set()
        if self.is_recording:
            self._end_early()
        limit = self.window.files
        if limit is not None and 0 < self.windows < limit and self.note is None:
            self.note = f"only {self.windows} of {limit} recordings began before the program ended"
        self.times.close()

    def abandon(self) -> None:
        """Forget everything in a forked child, which must not record."""
        self._closed = threading.Event()  # threads that only the parent has may hold the locks
        self._closed.set()
        self.is_recording = False
        self.times.abandon()
        self.profiler.leave_to_parent()
        self._lock = threading.RLock()
        self.problem = self.problem or RecordingError("a block that a forked process inherits is not recorded")

    def yield_profiler(self) -> None:
        """End all recording before the program starts a profiler of its own: a process has one at a time."""
        if self._yielded or self._closed.is_set():
            return
        with self._lock:
            was_done, self._yielded = self.is_done, True
            if self.is_recording:
                self.note = "the program started a profiler of its own, which ended this recording"
                self._stop(is_cut=True)
            elif self.windows and not was_done:
                self.note = "the program started a profiler of its own, after which nothing was recorded"
            elif not self.windows:
                self.problem = RecordingError(
                    "the program started a profiler of its own before the window opened; switch that one off, "
                    "or choose a window before it"
                )

    def _end_step(self, now_ns: int) -> None:
        self._owner.run_waiting()
        if self._closed.is_set():
            return
        with self._lock, self._owner.hold():
            is_owner = self._owner.is_current
            if is_owner:
                if self._mark is not None and self._mark_name != PROGRAM_START:
                    self._whole_steps = range(
                        self._whole_steps.start if self._whole_steps else self.steps - 1, self.steps
                    )
                self._unmark()
            self.times.end(now_ns, self._overhead_ns)
            self._overhead_ns = 0
            if self.is_recording:
                if self.steps == 1 and not is_owner:
                    self._move()
                elif self.window.is_over(self.steps - self._base_steps, time.monotonic() - self._base_s):
                    self._stop()
                elif is_owner:
                    self._mark_step()
            elif not self.is_done:
                self._begin_window()
            self._plan()

    def _count_recorded(self, steps: range) -> None:
        """Count the steps of a recording that is saved."""
        self.recorded_steps += len(steps)
        if steps and self.recorded_ranges and self.recorded_ranges[-1][1] == steps.start - 1:
            self.recorded_ranges[-1][1] = steps[-1]
        elif steps:
            self.recorded_ranges.append([steps.start, steps[-1]])

    def _plan(self) -> None:
        """Set the number of steps at whose end there is something to do; a request may come meanwhile."""
        while (number := self._find_next()) != self._next:
            self._next = number

    def _find_next(self) -> int:
        """Return the number of steps at whose end there is something to do; the clock and requests wake it earlier."""
        if self.is_recording or self._overhead_ns or self._closed.is_set():
            return 0
        if self.is_done:
            return _NEVER
        if self._is_common:
            return _NEVER if self._begin_at is None else self._begin_at - 1
        if self.window.wait:  # a step ahead, to prepare
            return self._base_steps + self.window.wait - 1
        is_early = time.monotonic() - self._base_s < (self.window.after_s or 0)
        return _NEVER if is_early or (self.window.on_demand and not self.is_requested) else 0

    def _begin_window(self) -> None:
        begin_at = self._base_steps + self.window.wait if self.window.wait else None
        if self._is_common:
            begin_at = self._begin_at
            is_due = begin_at is not None and self.steps >= begin_at
        else:
            is_due = self._is_due
        if is_due:
            self._start()
        elif not self._prepared and self.steps + 1 == begin_at:
            self._owner.take()
            self._call(self._prepare)  # a step ahead: the first use of a profiler takes long

    @property
    def _is_due(self) -> bool:
        """Whether a recording of this rank, for itself, begins now."""
        seconds = time.monotonic() - self._base_s
        return self.window.is_due(self.steps - self._base_steps, seconds, requested=self.is_requested)

    @property
    def _is_common(self) -> bool:
        """Whether the next recording begins at a step that the ranks agree on."""
        return self._common_start is not None and self._common_start.is_needed

    def _agree(self) -> None:
        """Agree with the other ranks on the next beginning, unless this one is beginning or ending a recording."""
        if self._common_start is None or not self._is_common or not self._lock.acquire(blocking=False):
            return
        try:
            if not self.is_recording and self._begin_at is None:
                self._begin_at = self._common_start.find(self.steps, is_due=self._is_due)
        finally:
            self._lock.release()

    def _prepare(self) -> None:
        self._prepared = True
        self.profiler.prepare()

    def _start(self) -> None:
        self.is_requested = False
        self._owner.take()

        def start() -> None:
            if not self._prepared:
                self._prepare()
            self.profiler.start()

        if self._call(start):
            self.is_recording = True
            self._begin_at = None
            self.windows += 1
            self._whole_steps, self._next = range(0), 0
            self._base_steps, self._base_s = self.steps, time.monotonic()
            with self._as_overhead():  # writing the record takes milliseconds, which are not the step's
                self._on_change()
            self._mark_step()

    def _end_early(self) -> None:
        """Save a recording whose thread or program ends within the window."""
        steps = self.steps - self._base_steps
        if self.window.active and steps < self.window.active:
            of = f" of recording {self.windows} of {self.window.cycles}" if self.window.cycles > 1 else ""
            self.note = f"only {steps} of {self.window.active} steps{of} were recorded before the program ended"
        self._stop(is_cut=True)

    def _stop(self, *, is_cut: bool = False) -> None:
        """Save the recording, on its owner; `is_cut` within a step, which then is none."""
        first = self._base_steps
        if self.steps == first and self.note is None:
            missing = "r.step() was not called" if self._begins_with_step else "no optimizer stepped"
            self.note = f"{missing} within the recording, so it has no steps"

        def stop() -> None:
            if not self.is_recording:  # the owner was faster
                return
            self.is_recording = self._prepared = False
            if is_cut and self._mark is not None and self._mark_name != PROGRAM_START:
                self.profiler.note_unfinished(self._mark_name)
            self._unmark()
            if self._call(self._stop_and_save(first)):
                self._count_recorded(self._whole_steps)
            else:
                self._lose()

        if not self._owner.call(stop):
            self.is_recording = False
            self._lose()
            self.problem = RecordingError(
                f"the thread {self._owner.name} that is recorded did not come to its next step, which would save it"
            )
        self._base_steps, self._base_s = self.steps, time.monotonic()
        self._call(self._write_progress)

    def _lose(self) -> None:
        """Count the recording that has ended as lost, unless its trace is kept elsewhere."""
        if not isinstance(self.problem, KeptTraceError):
            self.lost = f"; recording {self.windows} is lost" if self.windows > 1 else "; its recording is lost"
        self.windows -= 1

    def _write_progress(self) -> None:
        self.times.flush()
        self._on_change()

    def _stop_and_save(self, first: int) -> Callable[[], None]:
        def stop_and_save() -> None:
            self.profiler.stop(resumes=self.window.wait == 1 and not self.is_done)
            self.profiler.save(None if self.window.files == 1 else first)

        return stop_and_save

    def _move(self) -> None:
        """Begin again in the thread that trains, which is not the one that began with the program."""

        def discard() -> None:
            self._unmark()
            self._call(self.profiler.discard)

        owner = self._owner.name
        if not self._owner.call(discard):
            self.problem = RecordingError(
                f"the program trains in the thread {threading.current_thread().name}, and {owner}, whose recording "
                "began before, did not end it; choose a window of steps, such as wait 1 and active 10"
            )
        self.is_recording = self._prepared = False
        self.windows -= 1
        if self.problem is None:
            self.note = (
                f"the program trains in the thread {threading.current_thread().name}: "
                "the recording begins with its second step"
            )
            self._start()

    def _end_with_owner(self) -> None:
        """Save the recording of a thread that ends."""
        if self.is_recording and self._owner.is_current and not self._closed.is_set():
            with self._lock:
                self._end_early()
                self._plan()

    def _call(self, action: Callable[[], None]) -> bool:
        """Call the profiler; a failure ends all recording, and the program goes on."""
        self._is_calling = True
        with self._as_overhead():
            try:
                action()
            except (ProfilerError, RuntimeError, OSError, ValueError, AttributeError, ImportError) as error:
                self.problem = error
                self.is_recording = False
                self._on_change()
                return False
            finally:
                self._is_calling = False
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
            self._enter_mark(step_range_name(self.steps))
        elif self.window.begins_with_program:
            self._enter_mark(PROGRAM_START)

    def _enter_mark(self, name: str) -> None:
        self._mark, self._mark_name = self.profiler.mark(name), name
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
                self.is_requested = True
            self._agree()
            self._next = min(self._next, self._find_next())
            if self._needs_tick():
                call_on_main_thread(self._tick)

    def _pause_s(self) -> float:
        if self._watched is not None or self._is_common:
            return _REQUEST_POLL_S
        limit = self.window.seconds_limit if self.is_recording else self.window.after_s
        left = (limit or 0) - (time.monotonic() - self._base_s)
        return min(max(left, 0.01), 0.5) if limit is not None and left > -_REQUEST_POLL_S else _REQUEST_POLL_S

    def _needs_tick(self) -> bool:
        if self.is_recording:
            seconds, limit = time.monotonic() - self._base_s, self.window.seconds_limit
            between_steps = self.steps > self._base_steps  # then the end of a step ends the recording
            return limit is not None and seconds >= limit * (_PATIENCE if between_steps else 1)
        return not self.steps and not self.window.follows_steps and self._is_due

    def _tick(self) -> None:
        if self.is_busy or self._closed.is_set() or self.is_done or not self._needs_tick():
            return
        if not self.is_recording:
            self._start()
        elif self._owner.is_current:
            self._stop(is_cut=True)


def _abandon_all() -> None:
    while _recorders:
        _recorders.pop().abandon()


os.register_at_fork(after_in_child=_abandon_all)


def describe_problem(error: Exception) -> str:
    """Return why recording failed, in one line."""
    text = one_line(str(error))
    return text if isinstance(error, RecordingError | ProfilerError) else f"{type(error).__name__}: {text}"


def _touched_ns(path: Path) -> int | None:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None
