"""The time that recording takes is no part of a step."""

import contextlib
import json
import time
from collections.abc import Iterator
from typing import Any

from tracelab.collect.recording.recorder import Recorder
from tracelab.collect.recording.step_times import StepTimes
from tracelab.collect.recording.window import Window

_PAUSE_S = 0.05


class Log:
    """A profiler and a file of steps in memory."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.rows: list[dict[str, Any]] = []

    def prepare(self) -> None:
        self.calls.append("prepare")

    def start(self) -> None:
        self.calls.append("start")

    def stop(self) -> None:
        self.calls.append("stop")

    def save(self, _first_step: int | None) -> None:
        self.calls.append("save")

    def note_unfinished(self, name: str) -> None:
        self.calls.append(f"unfinished {name}")

    @contextlib.contextmanager
    def mark(self, name: str) -> Iterator[None]:
        self.calls.append(name)
        yield

    def change(self) -> None:
        time.sleep(_PAUSE_S)
        self.calls.append("change")

    def extend_lines(self, lines: list[str]) -> None:
        self.rows.extend(map(json.loads, lines))

    def close(self) -> None:
        pass


def test_writing_the_record_is_no_part_of_a_step() -> None:
    log: Any = Log()
    recorder = Recorder(Window(wait=1, active=1), log, StepTimes(lambda: log), on_change=log.change)
    recorder.begin()
    for _ in range(4):
        recorder.step()
    recorder.finish()
    assert log.calls == ["prepare", "start", "change", "ProfilerStep#1", "stop", "save", "change"]
    assert [row["step"] for row in log.rows] == [1, 2, 3]
    assert all(0 <= row["dur_ns"] < _PAUSE_S * 1e9 / 2 for row in log.rows)
