"""Ranks of one run record the same steps on request, or the run notes that they do not."""

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.collect.test_recorder import Log
from tracelab.collect.program.outcomes import kept_entries
from tracelab.collect.recording import common_start, recorder
from tracelab.collect.recording.common_start import CommonStart, Pace, clear_requests
from tracelab.collect.recording.recorder import Recorder
from tracelab.collect.recording.step_times import StepTimes
from tracelab.collect.recording.steps_apart import describe_steps_apart
from tracelab.collect.recording.window import Window
from tracelab.collect.run_end import finish_run


def test_the_pace_is_the_faster_of_all_steps_and_the_last_ones() -> None:
    pace = Pace()
    counts = []
    for steps, now_s in ((0, 0.0), (1, 10.0), (1, 10.5), (5, 11.0), (6, 12.0)):
        pace.update(steps, now_s)
        counts.append(pace.count_steps(2.0))
    assert counts == [None, None, None, 16, 5]  # 4 steps in 0.5 s; then 5 steps in 2 s, and 1 in the last one


def test_the_first_rank_that_is_due_names_a_step_for_all(tmp_path: Path) -> None:
    first, second = (CommonStart(tmp_path, 0.0, lambda: 2) for _ in range(2))
    assert [first.find(steps, is_due=False) for steps in (1, 2)] == [None, None]
    time.sleep(0.01)
    assert second.find(3, is_due=True) is None  # how fast it is, is not known yet
    step = first.find(4, is_due=True)
    assert step is not None
    assert step > 4 + common_start._LEAD_STEPS
    assert second.find(3, is_due=False) == step
    assert (first.find(5, is_due=False), second.find(5, is_due=False)) == (None, None)  # the next one is not named
    assert CommonStart(tmp_path, 0.0, lambda: 2).find(0, is_due=False) == step
    assert CommonStart(tmp_path, time.time() + 9, lambda: 2).find(0, is_due=False) is None  # began after that
    clear_requests(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_rank_that_cannot_write_the_step_begins_alone(tmp_path: Path) -> None:
    start = CommonStart(tmp_path / "missing", 0.0, lambda: 2)
    start.find(1, is_due=False)
    time.sleep(0.01)
    assert (start.find(2, is_due=True) or 0) > 2


@pytest.mark.parametrize("window", [Window(on_demand=True, active=3), Window(after_s=0.3, active=3)])
def test_ranks_begin_at_the_same_step_on_request_and_at_a_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: Window
) -> None:
    monkeypatch.setattr(common_start, "_NOTICE_S", 0.3)
    monkeypatch.setattr(recorder, "_REQUEST_POLL_S", 0.06)
    logs: list[Any] = [Log(), Log()]
    ranks = []
    for log in logs:
        ranks.append(Recorder(window, log, StepTimes(lambda log=log: log)))
        ranks[-1].begin(tmp_path / "record", common_start=CommonStart(tmp_path, 0.0, lambda: 2))
        time.sleep(0.03)  # so that they look at different moments
    together = threading.Barrier(2)

    def train(rank: Recorder) -> None:
        for step in range(200):
            together.wait()
            if step == 10 and rank is ranks[0]:
                (tmp_path / "record").touch()
            time.sleep(0.005)
            rank.step()

    trainers = [threading.Thread(target=train, args=[rank]) for rank in ranks]
    for trainer in trainers:
        trainer.start()
    for trainer in trainers:
        trainer.join()
    for rank in ranks:
        rank.finish()
    ((first, last),) = ranks[0].recorded_ranges
    assert last == first + 2
    assert ranks[1].recorded_ranges == [[first, last]]
    assert [call for call in logs[1].calls if "Step" not in call] == ["prepare", "start", "stop", "save"]


@pytest.mark.parametrize(
    ("ranges", "words"),
    [
        (([[4, 8]], [[4, 8]]), None),
        (([[4, 8]], []), None),
        (([[4, 8]], [[9, 9]]), "none of them in common (rank 0: 4 to 8; rank 1: 9)"),
        (
            ([[4, 8], [20, 21]], [[6, 9], [20, 21]]),
            "5 of them in common (rank 0: 4 to 8, 20 to 21; rank 1: 6 to 9, 20 to 21)",
        ),
        (
            ([[0, 1]], [[1, 2]], [[2, 3]], [[2, 3]], [[3, 4]], [[4, 5]]),
            "none of them in common (rank 0: 0 to 1; rank 1: 1 to 2; rank 2, 3: 2 to 3; rank 4: 3 to 4; 1 more)",
        ),
    ],
)
def test_steps_apart_are_described(ranges: tuple[list[list[int]], ...], words: str | None) -> None:
    described = describe_steps_apart({rank: {"recorded_ranges": each} for rank, each in enumerate(ranges)})
    assert described == (words and f"the ranks recorded different steps, {words}")


def test_steps_apart_are_a_note_of_the_run(tmp_path: Path) -> None:
    common = {"gpus": 0, "profiler": "kineto", "axes": {}, "parameters": None, "environment": {}, "versions": {}}
    description = common | {"capture": {}, "gpu": None, "pin_memory": None}
    records = {rank: {"recorded_ranges": [[5 * rank, 5 * rank + 4]], "note": "own"} for rank in range(2)}
    outcomes = {rank: kept_entries(each) | {"status": "ok"} for rank, each in records.items()}
    result = finish_run(tmp_path, description, outcomes, None)
    apart = "the ranks recorded different steps, none of them in common (rank 0: 0 to 4; rank 1: 5 to 9)"
    assert result.note == f"own; {apart}"
    assert result.describe().endswith(f"{result.note}; next: tracelab ingest {tmp_path}")
