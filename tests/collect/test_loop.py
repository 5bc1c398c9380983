"""What one rank writes down of its steps and epochs, whatever the profiler takes for itself."""

import itertools
import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.needs import needs_torch, torch
from tracelab.collect.process.cancellation import Cancellation
from tracelab.collect.process.launcher_env import Job
from tracelab.collect.profiling.capture import NoProfiler, StepCapture
from tracelab.collect.profiling.schedule import build_schedule
from tracelab.collect.settings import Settings
from tracelab.collect.training.loop import PreparedWorkload, TrainingLoop
from tracelab.collect.training.model_setup import RankContext
from tracelab.collect.training.step_log import StepLog

pytestmark = needs_torch


class Slow(NoProfiler):
    """A recorder that takes its time."""

    def save(self, first_step: int | None) -> None:
        time.sleep(0.5)


class Event:
    """An event that happens at once, a millisecond after the one before."""

    times_ms = itertools.count()

    def __init__(self, *, enable_timing: bool) -> None:
        assert enable_timing
        self.time_ms = 0

    def record(self) -> None:
        self.time_ms = next(self.times_ms)

    def query(self) -> bool:
        return True

    def elapsed_time(self, other: "Event") -> float:
        return float(other.time_ms - self.time_ms)


class Gpu:
    """torch as it is on a node with a GPU, as far as steps are written down; it tells what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.cuda = SimpleNamespace(
            Event=Event,
            synchronize=lambda: None,
            mem_get_info=lambda _: self.asked.append("mem_get_info") or (30, 100),
            max_memory_allocated=lambda _: 40,
            max_memory_reserved=lambda _: 50,
            reset_peak_memory_stats=lambda _: None,
        )

    def stack(self, figures: list[Any]) -> Any:
        self.asked.append("stack")
        return torch.stack(figures)

    def empty(self, length: int, *, pin_memory: bool) -> Any:
        assert pin_memory
        return torch.empty(length)


def test_a_recorded_step_of_a_gpu_requests_nothing_from_it_until_the_window_is_over(tmp_path: Path) -> None:
    gpu = Gpu()
    record = StepLog(RankContext(gpu, Settings("mine", device="cuda"), Job(), torch.device("cuda", 0)), tmp_path)
    told = []
    for number, inside in enumerate([True, True, False]):
        step = record.begin("train", 0, number)
        record.end(step, torch.tensor(1.0), torch.tensor(1.0))
        record.settle(step, later=inside)
        told.append(list(gpu.asked))
    record.close()
    peaks = [json.loads(line) for line in (tmp_path / "memory_peaks.rank0.jsonl").read_text().splitlines()[1:]]
    assert told == [[], [], ["mem_get_info", "stack", "stack", "stack"]]
    assert [(peak["allocated_bytes"], peak["used_bytes"]) for peak in peaks] == [(40, None), (40, None), (40, 70)]
    assert [row["dur_ns"] for row in written(tmp_path)] == [1_000_000] * 3


def written(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "steps.rank0.jsonl").read_text().splitlines()[1:]]


def test_an_epoch_is_without_the_time_in_which_a_trace_is_written(tmp_path: Path) -> None:
    settings = Settings("mine", device="cpu", steps=2, warmup=0, active=1, profiler="kineto")
    place = RankContext(torch, settings, Job(), torch.device("cpu"))
    record = StepLog(place, tmp_path)
    begun_ns = time.perf_counter_ns()
    TrainingLoop(
        place, PreparedWorkload(lambda: None), StepCapture(build_schedule(settings), Slow(), Cancellation()), record
    ).run()
    spent_ns = time.perf_counter_ns() - begun_ns
    record.close()
    *steps, epoch = written(tmp_path)
    assert sum(step["dur_ns"] for step in steps) <= epoch["dur_ns"] <= spent_ns - 500_000_000


def test_steps_of_a_window_are_written_when_it_is_over(tmp_path: Path) -> None:
    place = RankContext(torch, Settings("mine", device="cpu"), Job(), torch.device("cpu"))
    record, counts = StepLog(place, tmp_path), []
    for number, inside in enumerate([True, True, False]):
        step = record.begin("train", 0, number)
        step.samples = 1
        record.end(step, torch.tensor(number), torch.tensor(1.0))
        record.settle(step, later=inside)
        counts.append(len(written(tmp_path)))
    record.close()
    assert (counts, [row["loss"] for row in written(tmp_path)]) == ([0, 0, 3], [0.0, 1.0, 2.0])


def test_steps_of_a_window_that_broke_off_are_written(tmp_path: Path) -> None:
    place = RankContext(torch, Settings("mine", device="cpu"), Job(), torch.device("cpu"))
    record = StepLog(place, tmp_path)
    step = record.begin("train", 0, 0)
    record.end(step, torch.tensor(3.0), torch.tensor(1.0))
    record.settle(step, later=True)
    record.close()
    assert [row["loss"] for row in written(tmp_path)] == [3.0]


@pytest.mark.parametrize(
    ("steps", "epoch"),
    [
        ([(2, 3.0, 0.5), (6, float("nan"), 0.25), (2, float("inf"), 1.0)], (10, 3.0, 0.45)),
        ([(2, float("nan"), 0.5), (2, float("nan"), 1.0)], (4, None, 0.75)),
    ],
)
def test_accuracy_of_an_epoch_is_the_mean_of_its_steps_whatever_their_loss(
    tmp_path: Path, steps: list[tuple[int, float, float]], epoch: tuple[int, float | None, float]
) -> None:
    record = StepLog(RankContext(torch, Settings("mine", device="cpu"), Job(), torch.device("cpu")), tmp_path)
    whole = record.begin("epoch", 0, None)
    for number, (samples, loss, accuracy) in enumerate(steps):
        step = record.begin("train", 0, number)
        step.samples = samples
        record.end(step, torch.tensor(loss), torch.tensor(accuracy))
        record.settle(step)
    record.end_epoch(whole)
    record.close()
    row = written(tmp_path)[-1]
    assert (row["samples"], row["loss"], row["accuracy"]) == epoch
