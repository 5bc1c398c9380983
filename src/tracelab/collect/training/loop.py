"""The steps of a run: warm-up, epochs, validation; each is timed, and the profiler's windows fall where they should."""

import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tracelab.collect.profiling.capture import DATA_LOADING, StepCapture
from tracelab.collect.training.data_loading import ValidationData
from tracelab.collect.training.model_setup import RankContext
from tracelab.collect.training.step_log import EpochTotals, Step, StepLog

CALIBRATION_STEPS = 10


@dataclass(frozen=True)
class PreparedWorkload:
    """What a step does: `step` of the workload, and what the harness does around it."""

    step: Callable[..., Any]
    network: Any = None
    optimizer: Any = None
    scaler: Any = None
    training: Any = None
    """Loader of batches; None for a workload that needs none."""
    validation: ValidationData | None = None


class TrainingLoop:
    """One rank's run; steps are numbered from the first of the warm-up."""

    def __init__(self, place: RankContext, work: PreparedWorkload, capture: StepCapture, record: StepLog) -> None:
        self._place = place
        self._work = work
        self._capture = capture
        self._record = record
        self._number = itertools.count()

    def run(self) -> None:
        """Train as long as was asked for."""
        settings = self._place.settings
        self._pass("warmup", None, settings.warmup)
        for epoch in range(settings.epochs):
            self._record.finish()
            self._record.sums = EpochTotals()
            whole, apart_ns = self._record.begin("epoch", epoch, None), self._capture.apart_ns
            self._pass("train", epoch, settings.steps_an_epoch)
            self._record.end_epoch(whole, self._capture.apart_ns - apart_ns)
            if settings.validate and self._work.validation is not None:
                self._validate(epoch, self._work.validation)
        self._record.finish()

    def _pass(self, phase: str, epoch: int | None, most: int | None) -> None:
        """Steps over the data from its beginning: so many, or all. A warm-up longer than the data begins again."""
        loader = self._work.training
        sampler: Any = getattr(loader, "sampler", None)
        if hasattr(sampler, "set_epoch"):
            sampler.set_epoch(0 if epoch is None else epoch)
        length = (most or CALIBRATION_STEPS) if loader is None else len(loader)
        count = length if most is None else most if phase == "warmup" else min(length, most)
        batches = _batches(loader, count)
        for number in range(count):
            self._step(phase, epoch, number, batches)

    def _step(self, phase: str, epoch: int | None, number: int, batches: Iterator[Any]) -> None:
        with self._capture.step(next(self._number)):
            step = self._record.begin(phase, epoch, number)
            loaded = self._loaded(batches, step)
            loss, accuracy = self._worked() if loaded is None else self._learned(loaded)
            self._record.end(step, loss, accuracy)
        self._record.settle(step, later=self._capture.inside)
        self._capture.between()

    def _loaded(self, batches: Iterator[Any], step: Step) -> Any:  # noqa: ANN401
        with self._capture.phase(DATA_LOADING):
            batch = next(batches)
        if batch is not None:
            step.data_wait_ns = time.perf_counter_ns() - step.begun_ns
            step.samples = len(batch[0])
        return batch

    def _worked(self) -> tuple[None, None]:
        """A step of known work."""
        with self._capture.phase("work"):
            self._work.step()
        return None, None

    def _learned(self, batch: Any) -> tuple[Any, Any]:  # noqa: ANN401
        """A step down the loss."""
        work, place = self._work, self._place
        moved = place.moved(batch)
        work.optimizer.zero_grad()
        with self._capture.phase("forward"), place.autocast():
            loss, accuracy = work.step(*moved)
        with self._capture.phase("backward"):
            work.scaler.scale(loss).backward()
        with self._capture.phase("optimizer"):
            work.scaler.step(work.optimizer)
            work.scaler.update()
        return loss, accuracy

    def _validate(self, epoch: int, held_out: ValidationData) -> None:
        """Loss and accuracy over held-out data, or as many batches of it as an epoch has steps: one row."""
        whole = self._record.begin("validate", epoch, None)
        self._work.network.eval()
        with self._place.torch.no_grad():
            batches = itertools.islice(held_out.loader, self._place.settings.steps_an_epoch)
            for number, batch in enumerate(batches):
                step = self._record.begin("validate", epoch, None)
                with self._place.autocast():
                    loss, accuracy = self._work.step(*self._place.moved(batch))
                step.samples = len(batch[0]) if number < held_out.batches else 0
                self._record.end(step, loss, accuracy)
                self._record.settle(step)
        self._record.end_epoch(whole)
        self._work.network.train()


def _batches(loader: Iterable[Any] | None, count: int) -> Iterator[Any]:
    """So many batches, begun again where the data is shorter; workers start with the first, which waits for them."""
    if loader is None:
        yield from itertools.repeat(None, count)
        return
    while count > 0:
        for batch in itertools.islice(loader, count):
            count -= 1
            yield batch
