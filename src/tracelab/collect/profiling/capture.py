"""Start and stop the profiler at the recorded steps and annotate them, so that workloads need no profiler code."""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from tracelab.collect.process.cancellation import Cancellation
from tracelab.collect.profiling.schedule import Schedule

DATA_LOADING = "enumerate(DataLoader)#__next__"
"""PyTorch's own name of the wait for a batch, so that one query finds it under every profiler."""


class ProfilerError(Exception):
    """The profiler failed, not the training."""


class Profiler(Protocol):
    """The profiler as a rank controls it."""

    @property
    def is_attached(self) -> bool:
        """Whether it slows the steps that are not recorded, too."""
        ...

    def prepare(self) -> None:
        """Initialize a step before the first recorded one, so that the cost of starting is not recorded."""
        ...

    def start(self) -> None:
        """Start recording."""
        ...

    def stop(self, *, resumes: bool = False) -> None:
        """Stop recording once the device has finished its work; another recording `resumes` at once, or not."""
        ...

    def save(self, first_step: int | None) -> None:
        """Write what was recorded since the last start."""
        ...

    def mark(self, name: str) -> contextlib.AbstractContextManager[Any]:
        """Annotate the block with a range of this name."""
        ...


class NoProfiler:
    """A run without a profiler."""

    is_attached = False

    def prepare(self) -> None:
        """Do nothing."""

    def start(self) -> None:
        """Do nothing."""

    def stop(self, *, resumes: bool = False) -> None:
        """Do nothing."""

    def save(self, first_step: int | None) -> None:
        """Do nothing."""

    def mark(self, name: str) -> contextlib.AbstractContextManager[Any]:  # noqa: ARG002
        """Do nothing."""
        return contextlib.nullcontext()


class NvtxRanges:
    """nsys and ncu, which run this process: it signals recorded steps through the CUDA profiler API and NVTX."""

    is_attached = True

    def __init__(self, torch: Any, *, cuda: bool, gated: bool) -> None:  # noqa: ANN401  torch carries no types here
        self._torch = torch
        self._gated = cuda and gated
        self._cuda = cuda
        self._nvtx = torch.cuda.nvtx if cuda else None

    def prepare(self) -> None:
        """Do nothing: the profiler is already running."""

    def start(self) -> None:
        """Call cudaProfilerStart after synchronizing, so that no earlier work is recorded."""
        if self._gated:
            self._torch.cuda.synchronize()
            self._torch.cuda.profiler.start()

    def stop(self, *, resumes: bool = False) -> None:  # noqa: ARG002
        """Call cudaProfilerStop after synchronizing."""
        if self._cuda:
            self._torch.cuda.synchronize()
        if self._gated:
            self._torch.cuda.profiler.stop()

    def save(self, first_step: int | None) -> None:
        """Do nothing: the profiler writes its report when this process ends."""

    def mark(self, name: str) -> contextlib.AbstractContextManager[Any]:
        """Annotate the block with an NVTX range."""
        if self._nvtx is None:
            return contextlib.nullcontext()
        nvtx_range: contextlib.AbstractContextManager[Any] = self._nvtx.range(name)
        return nvtx_range


class StepCapture:
    """Applies the schedule of recorded steps to a profiler; cancellation never interrupts the profiler itself."""

    def __init__(self, schedule: Schedule, profiler: Profiler, cancellation: Cancellation) -> None:
        self._schedule = schedule
        self._profiler = profiler
        self._cancellation = cancellation
        self._step = -1
        self._recording = False
        self._prepared = False
        self._unsaved_step: int | None = None
        self.recorded = 0
        """Windows that were recorded, at least in part."""
        self.unsaved: Exception | None = None
        """Why the recording could not be saved when the run was interrupted."""
        self.overhead_ns = 0
        """Time that the profiler took between steps."""

    @property
    def steps(self) -> int:
        """Steps that have begun, warm-up included."""
        return self._step + 1

    @property
    def is_recording(self) -> bool:
        """Whether a window of steps is being recorded; the harness postpones its own work until it closes."""
        return self._recording and self._schedule.window != "all" and not isinstance(self._profiler, NoProfiler)

    def profiler_state(self, number: int) -> str:
        """Return what the profiler does in a step: off, attached, which may slow it down, or recording."""
        if isinstance(self._profiler, NoProfiler):
            return "off"
        if self._schedule.window == "all" or self._schedule.cycle(number) is not None:
            return "recording"
        return "attached" if self._prepared or self._profiler.is_attached else "off"

    @contextlib.contextmanager
    def run(self) -> Iterator[None]:
        """Wrap the whole run; an interrupted run still saves what was recorded."""
        if self._schedule.window == "all":
            self._start(0)
        elif self._schedule.begins(1):
            self._prepare()
        try:
            yield
        except BaseException:
            self._cancellation.disable()
            try:
                self._finish()
            except (ProfilerError, OSError) as error:  # the error that ended the run is the one to raise
                self.unsaved = error
            raise
        self._finish()

    @contextlib.contextmanager
    def step(self, number: int) -> Iterator[None]:
        """Wrap one step."""
        self._step = number
        annotated = self._schedule.window in ("step", "all")
        if self._schedule.window == "step" and self._schedule.begins(number):
            with self._count_overhead():
                self._start(number)
        with self._profiler.mark(step_range_name(number)) if annotated else contextlib.nullcontext():
            yield
        if self._schedule.window == "step" and self._schedule.ends(number):
            with self._count_overhead():
                self._stop()

    def between_steps(self) -> None:
        """Save a finished recording and prepare the next one, outside of any step.

        A whole step runs between preparing and recording: the first launches under CUPTI are slow.
        """
        with self._count_overhead():
            self._save()
            if not self._recording and self._begins_soon:
                self._prepare()
        self._cancellation.check()

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Wrap one part of a step: the forward pass, the backward pass, the wait for data."""
        if self._schedule.window != name or not self._schedule.begins(self._step):
            with self._profiler.mark(name):
                yield
            return
        self._start(self._step)
        with self._profiler.mark(step_range_name(self._step)), self._profiler.mark(name):
            yield
        self._stop()

    @property
    def _begins_soon(self) -> bool:
        """Whether a recording begins with one of the next two steps: it is prepared now."""
        ahead = (self._step + 1, self._step + 2)
        return self._schedule.window != "all" and any(map(self._schedule.begins, ahead))

    def _finish(self) -> None:
        if self._recording:
            self._stop()
        self._save()

    def _prepare(self) -> None:
        if not self._prepared:
            self._call(self._profiler.prepare)
            self._prepared = True

    def _start(self, step: int) -> None:
        with self._cancellation.deferred():
            self._call(self._profiler.start)
            self._prepared = False
            self._recording, self._unsaved_step = True, step
            self.recorded += 1

    def _stop(self) -> None:
        with self._cancellation.deferred():
            self._recording = False
            self._call(lambda: self._profiler.stop(resumes=self._begins_soon))

    def _save(self) -> None:
        if self._unsaved_step is None or self._recording:
            return
        step, self._unsaved_step = self._unsaved_step, None
        single_file = self._schedule.files == 1
        with self._cancellation.deferred():
            self._call(lambda: self._profiler.save(None if single_file else step))

    @contextlib.contextmanager
    def _count_overhead(self) -> Iterator[None]:
        begun_ns = time.perf_counter_ns()
        yield
        self.overhead_ns += time.perf_counter_ns() - begun_ns

    def _call(self, action: Callable[[], None]) -> None:
        """Call the profiler; a RuntimeError becomes a ProfilerError, so that training is not blamed."""
        try:
            action()
        except RuntimeError as error:
            raise ProfilerError(f"{type(error).__name__}: {' '.join(str(error).split())}") from error


def step_range_name(number: int) -> str:
    """Return the name of a step's range: PyTorch's, under every profiler."""
    return f"ProfilerStep#{number}"
