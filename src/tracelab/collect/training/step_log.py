"""Log each step of one rank: time, loss, accuracy, wait for data, and peak memory."""

import contextlib
import time
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tracelab.collect.run_folder import JsonLines
from tracelab.collect.training.model_setup import RankContext

_PATIENCE_S = 1.0
_POLL_S = 0.01


@dataclass
class Step:
    """A running step. With torch.cuda its time is that between two events, because the CPU side runs ahead."""

    phase: str
    epoch: int | None
    number: int | None
    start_ns: int
    begun_ns: int
    begun: Any = None
    ended: Any = None
    dur_ns: int = 0
    samples: int | None = None
    data_wait_ns: int | None = None
    """None, like `samples`, if the workload needs no data."""
    waits: list[tuple[Any, Any]] = field(default_factory=list)
    """Events around each wait for data; on a GPU the wait is the time that the GPU spent between them."""
    is_stage: bool = False
    """Whether it is a part of a step, such as prefill, and no part of an epoch's totals."""
    profiler_state: str | None = None
    overhead_ns: int = 0
    """Time that the profiler has taken between steps since the run began."""
    before: "Step | None" = None
    """The step before, from whose end the gap is counted."""
    ended_ns: int = 0
    device_figures: Any = None
    """Loss and accuracy on the device, until they are fetched."""
    figures: Any = None
    """Loss and accuracy as one tensor on the host, valid once the event `fetched` is complete; None without a loss."""
    fetched: Any = None

    @property
    def events(self) -> tuple[Any, Any]:
        """Events that must complete before the step can be written."""
        return self.ended, self.fetched


@dataclass
class Mean:
    """The mean of a figure over samples, ignoring steps without it."""

    total: float = 0.0
    samples: int = 0

    def add(self, figure: float | None, samples: int) -> None:
        """Count one step in."""
        if figure is not None:
            self.total += figure * samples
            self.samples += samples

    @property
    def value(self) -> float | None:
        """The mean; None if no step had the figure."""
        return self.total / self.samples if self.samples else None


@dataclass
class EpochTotals:
    """Totals of an epoch; loss and accuracy separately, because the loss may be NaN where the accuracy is not."""

    samples: int | None = None
    data_wait_ns: int | None = None
    gap_ns: int | None = None
    loss: Mean = field(default_factory=Mean)
    accuracy: Mean = field(default_factory=Mean)

    def add(self, step: Step, gap_ns: int | None, loss: float | None, accuracy: float | None) -> None:
        """Count one step in."""
        if gap_ns is not None:
            self.gap_ns = (self.gap_ns or 0) + gap_ns
        if step.samples is None:
            return
        self.samples = (self.samples or 0) + step.samples
        if step.data_wait_ns is not None:
            self.data_wait_ns = (self.data_wait_ns or 0) + step.data_wait_ns
        self.loss.add(loss, step.samples)
        self.accuracy.add(accuracy, step.samples)


@dataclass
class StepLog:
    """The log files of one rank; a row is written as soon as the device finished the step."""

    context: RankContext
    folder: Path
    sums: EpochTotals = field(default_factory=EpochTotals)
    steps_written: int = 0
    steps_recorded: int = 0
    """Those of them that a profiler recorded."""
    _ended: deque[Step] = field(default_factory=deque)
    _pending: deque[Step] = field(default_factory=deque)
    _last: Step | None = None
    _replayed_bytes: dict[int, int] | None = None
    _stages: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        run, rank = self.folder.name, self.context.job.rank
        self._steps = JsonLines(self.folder / f"steps.rank{rank}.jsonl", "steps/1", run, rank)
        self._peaks = None
        if self.context.cuda:
            self._peaks = JsonLines(self.folder / f"memory_peaks.rank{rank}.jsonl", "memory_peaks/1", run, rank)

    def begin(
        self,
        phase: str,
        epoch: int | None,
        number: int | None,
        *,
        profiler_state: str | None = None,
        overhead_ns: int = 0,
    ) -> Step:
        """Start timing a step, or an epoch if `number` is None."""
        step = Step(phase, epoch, number, time.time_ns(), time.perf_counter_ns())
        step.profiler_state, step.overhead_ns = profiler_state, overhead_ns
        if number is None:
            self._stages.clear()
            return step
        step.before, self._last = self._last if number else None, step
        if self.context.cuda:
            step.begun = self._event()
        return step

    def begin_stage(self, step: Step, name: str, samples: int) -> Step:
        """Start timing a stage of a step, such as prefill; stages of one name count from 0 in each epoch."""
        stage = Step(name, step.epoch, self._stages[name], time.time_ns(), time.perf_counter_ns(), samples=samples)
        self._stages[name] += 1
        stage.is_stage, stage.profiler_state = True, step.profiler_state
        if self.context.cuda:
            stage.begun = self._event()
        return stage

    @contextlib.contextmanager
    def loading(self, step: Step) -> Iterator[None]:
        """Count the block as a wait for data; the first one of a step begins with it."""
        is_first = step.data_wait_ns is None
        begun_ns = step.begun_ns if is_first else time.perf_counter_ns()
        begun = step.begun if is_first or not self.context.cuda else self._event()
        yield
        step.data_wait_ns = (step.data_wait_ns or 0) + time.perf_counter_ns() - begun_ns
        if self.context.cuda:
            step.waits.append((begun, self._event()))

    def end(self, step: Step, loss: Any = None, accuracy: Any = None) -> None:  # noqa: ANN401  tensors
        """Stop timing, and do no more: any work here would be part of the step in a profile."""
        if self.context.cuda:
            step.ended = self._event()
        if self.context.mps:
            self.context.torch.mps.synchronize()
        step.ended_ns = time.perf_counter_ns()
        step.dur_ns = step.ended_ns - step.begun_ns
        step.device_figures = None if loss is None else (loss.detach(), accuracy.detach())
        self._ended.append(step)

    def settle(self, step: Step, *, later: bool = False) -> None:
        """Fetch loss and accuracy of finished steps without waiting for the device, and write complete rows.

        `later` postpones this while a profiler records: copies and driver queries would appear in its trace.
        """
        self.peak(step.epoch, step.number, whole_gpu=not later)
        if not later:
            self._fetch()
            self._write_done()

    def end_epoch(self, step: Step, overhead_ns: int = 0) -> None:
        """Write the row of an epoch or a validation from the totals of its steps.

        Its time excludes `overhead_ns`, which the profiler took between steps.
        """
        self.finish()
        dur_ns = time.perf_counter_ns() - step.begun_ns - overhead_ns
        row = _row(step, dur_ns, self.sums.gap_ns, self.sums.loss.value, self.sums.accuracy.value)
        self._steps.append(row | {"samples": self.sums.samples, "data_wait_ns": self.sums.data_wait_ns})
        self.sums = EpochTotals()

    def finish(self) -> None:
        """Wait for the device and write all remaining steps."""
        self._fetch()
        if self.context.cuda and self._pending:
            self.context.torch.cuda.synchronize()
        while self._pending:
            self._write(self._pending.popleft())

    def close(self) -> None:
        """Sync the files to disk; waits only briefly for unfinished steps, because a failed device never ends them."""
        until = time.monotonic() + _PATIENCE_S
        with contextlib.suppress(RuntimeError):  # of a GPU that failed
            self._fetch()
            while self._pending and time.monotonic() < until:
                self._write_done()
                time.sleep(_POLL_S)
        self._steps.close()
        if self._peaks is not None:
            self._peaks.close()

    def peak(self, epoch: int | None, number: int | None, *, whole_gpu: bool = True) -> None:
        """Write the peak memory of each GPU since the last call; after a failure without a step.

        `whole_gpu=False` omits the memory in use on the whole GPU, which needs a driver query.
        """
        if self._peaks is None:
            return
        cuda = self.context.torch.cuda
        if self._replayed_bytes is None:
            self._replayed_bytes = _replayed_bytes(cuda) if self.context.settings.cuda_graphs else {}
        for device in self.context.devices:
            self._peaks.append(
                {
                    "device": device,
                    "epoch": epoch,
                    "step": number,
                    "allocated_bytes": cuda.max_memory_allocated(device) + self._replayed_bytes.get(device, 0),
                    "reserved_bytes": cuda.max_memory_reserved(device),
                    "used_bytes": _used_bytes(cuda, device) if whole_gpu else None,
                }
            )
            cuda.reset_peak_memory_stats(device)

    def _fetch(self) -> None:
        torch = self.context.torch
        while self._ended:
            step = self._ended.popleft()
            if step.device_figures is not None:
                figures = torch.stack([each.float() for each in step.device_figures])
                step.figures = torch.empty(2, pin_memory=self.context.cuda).copy_(
                    figures, non_blocking=self.context.cuda
                )
                step.device_figures, step.fetched = None, self._event() if self.context.cuda else None
            self._pending.append(step)

    def _write_done(self) -> None:
        while self._pending and all(each is None or each.query() for each in self._pending[0].events):
            self._write(self._pending.popleft())

    def _write(self, step: Step) -> None:
        loss, accuracy = (None, None) if step.figures is None else map(_finite, step.figures.tolist())
        if step.begun is not None:
            step.dur_ns = _elapsed_ns(step.begun, step.ended)
        if step.waits:
            step.data_wait_ns = sum(_elapsed_ns(*wait) for wait in step.waits)
        gap_ns, step.before = _gap_ns(step), None
        if not step.is_stage:
            self.sums.add(step, gap_ns, loss, accuracy)
        if step.phase != "validate":  # a validation is one row
            self._steps.append(_row(step, step.dur_ns, gap_ns, loss, accuracy))
            self.steps_written += step.phase == "train"
            self.steps_recorded += step.phase == "train" and step.profiler_state == "recording"

    def _event(self) -> Any:  # noqa: ANN401
        event = self.context.torch.cuda.Event(enable_timing=True)
        event.record()
        return event


def _elapsed_ns(begin: Any, end: Any) -> int:  # noqa: ANN401  events
    """Return the time between two complete events, which torch gives in milliseconds."""
    elapsed_ms: float = begin.elapsed_time(end)
    return round(elapsed_ms * 1e6)


def _gap_ns(step: Step) -> int | None:
    """Return the time between the step before and this one, without what the profiler took of it."""
    before = step.before
    if before is None:
        return None
    on_gpu = step.begun is not None
    passed_ns = _elapsed_ns(before.ended, step.begun) if on_gpu else step.begun_ns - before.ended_ns
    return max(0, passed_ns - (step.overhead_ns - before.overhead_ns))


def _row(step: Step, dur_ns: int, gap_ns: int | None, loss: float | None, accuracy: float | None) -> dict[str, Any]:
    return {
        "start_ns": step.start_ns,
        "dur_ns": dur_ns,
        "phase": step.phase,
        "epoch": step.epoch,
        "step": step.number,
        "samples": step.samples,
        "loss": loss,
        "accuracy": accuracy,
        "data_wait_ns": step.data_wait_ns,
        "profiler_state": step.profiler_state,
        "gap_ns": gap_ns,
    }


def _replayed_bytes(cuda: Any) -> dict[int, int]:  # noqa: ANN401  torch carries no types here
    """Return the bytes that CUDA graphs write to and the allocator does not count, by device.

    A replay uses its graph's private pool without the allocator, which counts only what is still held there.
    """
    counts: dict[int, int] = {}
    for segment in cuda.memory_snapshot():
        if tuple(segment["segment_pool_id"]) != (0, 0):
            device = int(segment["device"])
            counts[device] = counts.get(device, 0) + int(segment["total_size"]) - int(segment["allocated_size"])
    return counts


def _used_bytes(cuda: Any, device: int) -> int:  # noqa: ANN401  torch carries no types here
    free, total = cuda.mem_get_info(device)
    return int(total - free)


def _finite(value: float) -> float | None:
    """Return the value, or None for NaN and infinity, which JSON and means cannot hold."""
    return value if abs(value) < float("inf") else None
