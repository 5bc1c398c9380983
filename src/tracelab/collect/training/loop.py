"""The training loop: warm-up, epochs and validation, each step timed and profiled on schedule."""

import contextlib
import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tracelab.collect.profiling.capture import DATA_LOADING, StepCapture
from tracelab.collect.training.data_loading import ValidationData, batch_sizes, count_batches, count_steps
from tracelab.collect.training.model_setup import RankContext
from tracelab.collect.training.step_log import EpochTotals, Step, StepLog

CALIBRATION_STEPS = 10


@dataclass(frozen=True)
class PreparedWorkload:
    """A workload's step, with the model, optimizer and data that the harness drives it with."""

    step: Callable[..., Any]
    network: Any = None
    optimizer: Any = None
    scaler: Any = None
    training: Any = None
    """Loader of batches; None for a workload without data."""
    validation: ValidationData | None = None


class TrainingLoop:
    """The run of one rank; steps count from the first warm-up step."""

    def __init__(self, context: RankContext, work: PreparedWorkload, capture: StepCapture, log: StepLog) -> None:
        self._context = context
        self._work = work
        self._capture = capture
        self._log = log
        self._number = itertools.count()

    def run(self) -> None:
        """Run the warm-up and every epoch."""
        settings = self._context.settings
        self._run_steps("warmup", None, settings.warmup)
        for epoch in range(settings.epochs):
            self._log.finish()
            self._log.sums = EpochTotals()
            epoch_record, overhead_ns = self._log.begin("epoch", epoch, None), self._capture.overhead_ns
            self._run_steps("train", epoch, settings.steps_an_epoch)
            self._log.end_epoch(epoch_record, self._capture.overhead_ns - overhead_ns)
            if settings.validate and self._work.validation is not None:
                self._validate(epoch, self._work.validation)
        self._log.finish()

    def _run_steps(self, phase: str, epoch: int | None, most: int | None) -> None:
        """Run at most `most` steps from the start of the data. A warm-up longer than the data starts it again."""
        loader = self._work.training
        sampler: Any = getattr(loader, "sampler", None)
        if hasattr(sampler, "set_epoch"):
            sampler.set_epoch(0 if epoch is None else epoch)
        settings = self._context.settings
        length = (most or CALIBRATION_STEPS) if loader is None else count_steps(loader, settings)
        count = length if most is None else most if phase == "warmup" else min(length, most)
        batches = None if loader is None else _batches(loader, count_batches(loader, settings, count))
        for number in range(count):
            self._step(phase, epoch, number, batches)

    def _step(self, phase: str, epoch: int | None, number: int, batches: Iterator[Any] | None) -> None:
        capture, position = self._capture, next(self._number)
        with capture.step(position):
            state = capture.profiler_state(position)
            step = self._log.begin(phase, epoch, number, profiler_state=state, overhead_ns=capture.overhead_ns)
            loss, accuracy = self._work_without_data(step) if batches is None else self._train(step, number, batches)
            self._log.end(step, loss, accuracy)
        self._log.settle(step, later=self._capture.is_recording)
        self._capture.between_steps()

    def _load(self, batches: Iterator[Any], step: Step) -> Any:  # noqa: ANN401
        with self._log.loading(step), self._capture.phase(DATA_LOADING):
            batch = next(batches)
        step.samples = (step.samples or 0) + len(batch[0]) * self._context.counts_samples
        return batch

    def _work_without_data(self, step: Step) -> tuple[None, None]:
        """Run a step of a known amount of work."""
        if inspect.isgeneratorfunction(self._work.step):
            self._run_stages(self._work.step(), step)
        else:
            with self._capture.phase("work"):
                self._work.step()
        return None, None

    def _run_stages(self, stages: Iterator[tuple[str, int]], step: Step) -> None:
        """Run a step that yields name and samples of each stage before it does the stage's work."""
        upcoming = next(stages, None)
        while upcoming is not None:
            name, samples = upcoming[0], upcoming[1] * self._context.counts_samples
            with self._capture.phase(name):
                stage = self._log.begin_stage(step, name, samples) if step.phase == "train" else None
                upcoming = next(stages, None)
                if stage is not None:
                    self._log.end(stage)
            step.samples = max(step.samples or 0, samples)

    def _train(self, step: Step, number: int, batches: Iterator[Any]) -> tuple[Any, Any]:
        """Run a training step of one batch or of several, and return loss and accuracy over all samples."""
        work = self._work
        *others, last = batch_sizes(work.training, self._context.settings, number)
        tensors = self._context.to_device(self._load(batches, step))
        work.optimizer.zero_grad()
        if not others:
            figures = self._add_gradients(tensors)
        else:
            total = sum(others) + last
            figures = (0, 0)
            with self._without_gradient_sync():
                for size in others:
                    figures = self._add_gradients(tensors, size / total, figures)
                    tensors = self._context.to_device(self._load(batches, step))
            figures = self._add_gradients(tensors, last / total, figures)
        with self._capture.phase("optimizer"):
            work.scaler.step(work.optimizer)
            work.scaler.update()
        return figures

    def _add_gradients(
        self, tensors: list[Any], weight: float = 1.0, sums: tuple[Any, Any] | None = None
    ) -> tuple[Any, Any]:
        """Add a batch's gradients, with its share of the step's samples as weight, and add its figures to `sums`."""
        with self._capture.phase("forward"), self._context.autocast():
            loss, accuracy = self._work.step(*tensors)
        with self._capture.phase("backward"):
            self._work.scaler.scale(loss if sums is None else loss * weight).backward()
        if sums is None:
            return loss, accuracy
        return sums[0] + loss.detach() * weight, sums[1] + accuracy.detach() * weight

    def _without_gradient_sync(self) -> contextlib.AbstractContextManager[Any]:
        """Return a context in which DDP averages no gradients over ranks; FSDP always does, to keep them sharded."""
        if self._context.settings.parallel != "ddp":
            return contextlib.nullcontext()
        context: contextlib.AbstractContextManager[Any] = self._work.network.no_sync()
        return context

    def _validate(self, epoch: int, held_out: ValidationData) -> None:
        """Write one row of loss and accuracy over held-out data, at most as many batches as an epoch has steps."""
        validation = self._log.begin("validate", epoch, None)
        self._work.network.eval()
        with self._context.torch.no_grad():
            batches = itertools.islice(held_out.loader, self._context.settings.steps_an_epoch)
            for number, batch in enumerate(batches):
                step = self._log.begin("validate", epoch, None)
                with self._context.autocast():
                    loss, accuracy = self._work.step(*self._context.to_device(batch))
                is_own = number < held_out.batches and self._context.counts_samples
                step.samples = len(batch[0]) if is_own else 0
                self._log.end(step, loss, accuracy)
                self._log.settle(step)
        self._log.end_epoch(validation)
        self._work.network.train()


def _batches(loader: Iterable[Any], count: int) -> Iterator[Any]:
    """Yield `count` batches, starting again if the data is shorter; the first waits for the loader to start."""
    while count > 0:
        for batch in itertools.islice(loader, count):
            count -= 1
            yield batch
