"""Profilers switched on and off at the window's ends, and ranges named: the harness does it, workloads know nothing."""

import contextlib
import time
from collections.abc import Iterator
from typing import Any, Protocol

from tracelab.collect.process.cancellation import Cancellation
from tracelab.collect.profiling.schedule import Schedule

DATA_LOADING = "enumerate(DataLoader)#__next__"
"""PyTorch's own name for the wait for a batch, so that one question finds it whoever recorded it."""


class ProfilerError(Exception):
    """The profiler failed, not the training."""


class Profiler(Protocol):
    """What a profiler can be told."""

    def prepare(self) -> None:
        """Get ready, a step ahead: what beginning costs must not be recorded."""
        ...

    def start(self) -> None:
        """Record from here on."""
        ...

    def stop(self) -> None:
        """Record no more, once the device has done what it was given."""
        ...

    def save(self, first_step: int | None) -> None:
        """Write what was recorded since the last start."""
        ...

    def mark(self, name: str) -> contextlib.AbstractContextManager[Any]:
        """Name what happens within."""
        ...


class NoProfiler:
    """No profiler."""

    def prepare(self) -> None:
        """Nothing."""

    def start(self) -> None:
        """Nothing."""

    def stop(self) -> None:
        """Nothing."""

    def save(self, first_step: int | None) -> None:
        """Nothing."""

    def mark(self, name: str) -> contextlib.AbstractContextManager[Any]:  # noqa: ARG002
        """Nothing."""
        return contextlib.nullcontext()


class NvtxRanges:
    """nsys and ncu: they stand around the process, and hear of the window and the ranges through CUDA and NVTX."""

    def __init__(self, torch: Any, *, cuda: bool, gated: bool) -> None:  # noqa: ANN401  torch carries no types here
        self._torch = torch
        self._gated = cuda and gated
        self._cuda = cuda
        self._nvtx = torch.cuda.nvtx if cuda else None

    def prepare(self) -> None:
        """Nothing: they are there already."""

    def start(self) -> None:
        """Open the gate: cudaProfilerStart, once earlier work is done, so that none of it falls in the window."""
        if self._gated:
            self._torch.cuda.synchronize()
            self._torch.cuda.profiler.start()

    def stop(self) -> None:
        """Close it."""
        if self._cuda:
            self._torch.cuda.synchronize()
        if self._gated:
            self._torch.cuda.profiler.stop()

    def save(self, first_step: int | None) -> None:
        """Nothing: they write when the process ends."""

    def mark(self, name: str) -> contextlib.AbstractContextManager[Any]:
        """Name an NVTX range."""
        if self._nvtx is None:
            return contextlib.nullcontext()
        marked: contextlib.AbstractContextManager[Any] = self._nvtx.range(name)
        return marked


class StepCapture:
    """The windows of one run, kept by whatever recorder there is; what that does is never broken off half-way."""

    def __init__(self, windows: Schedule, recorder: Profiler, stop: Cancellation) -> None:
        self._windows = windows
        self._recorder = recorder
        self._stopping = stop
        self._step = -1
        self._recording = False
        self._unsaved: int | None = None
        self.recorded = 0
        """Windows that were recorded, in part at least."""
        self.unsaved: Exception | None = None
        """Why what was recorded could not be kept when the run broke off."""
        self.apart_ns = 0
        """Time that the recorder took between steps."""

    @property
    def inside(self) -> bool:
        """Whether a window of steps is open: what the harness does for itself can wait until it is not."""
        return self._recording and self._windows.window != "all" and not isinstance(self._recorder, NoProfiler)

    @contextlib.contextmanager
    def run(self) -> Iterator[None]:
        """The whole run; what is being recorded when it breaks off is kept."""
        if self._windows.window == "all":
            self._start(0)
        try:
            yield
        except BaseException:
            self._stopping.end()
            try:
                self._end()
            except (ProfilerError, OSError) as error:  # what broke off the run is what counts
                self.unsaved = error
            raise
        self._end()

    @contextlib.contextmanager
    def step(self, number: int) -> Iterator[None]:
        """One step."""
        self._step = number
        whole = self._windows.window in ("step", "all")
        if self._windows.window == "step" and self._windows.begins(number):
            with self._apart():
                self._start(number)
        with self._recorder.mark(step_range_name(number)) if whole else contextlib.nullcontext():
            yield
        if self._windows.window == "step" and self._windows.ends(number):
            with self._apart():
                self._stop()

    def between(self) -> None:
        """Behind a step, and no part of it: write what was recorded, and get ready for the next window."""
        with self._apart():
            self._save()
            if self._windows.window != "all" and not self._recording and self._windows.begins(self._step + 1):
                self._told(self._recorder.prepare)
        self._stopping.check()

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """The forward or backward pass, or another part of a step."""
        if self._windows.window != name or not self._windows.begins(self._step):
            with self._recorder.mark(name):
                yield
            return
        self._start(self._step)
        with self._recorder.mark(step_range_name(self._step)), self._recorder.mark(name):
            yield
        self._stop()

    def _end(self) -> None:
        if self._recording:
            self._stop()
        self._save()

    def _start(self, step: int) -> None:
        with self._stopping.held():
            self._told(self._recorder.start)
            self._recording, self._unsaved = True, step
            self.recorded += 1

    def _stop(self) -> None:
        with self._stopping.held():
            self._recording = False
            self._told(self._recorder.stop)

    def _save(self) -> None:
        if self._unsaved is None or self._recording:
            return
        step, self._unsaved = self._unsaved, None
        one = self._windows.files == 1
        with self._stopping.held():
            self._told(lambda: self._recorder.save(None if one else step))

    @contextlib.contextmanager
    def _apart(self) -> Iterator[None]:
        begun_ns = time.perf_counter_ns()
        yield
        self.apart_ns += time.perf_counter_ns() - begun_ns

    def _told(self, what: Any) -> None:  # noqa: ANN401  a bound method
        """Tell the recorder; what it answers with is the profiler's failure."""
        try:
            what()
        except RuntimeError as error:
            raise ProfilerError(f"{type(error).__name__}: {' '.join(str(error).split())}") from error


def step_range_name(number: int) -> str:
    """The name of a step's range: PyTorch's, under every profiler."""
    return f"ProfilerStep#{number}"
