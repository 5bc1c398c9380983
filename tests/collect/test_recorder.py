"""The time that recording takes is no part of a step."""

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from tracelab.collect.disk_errors import KeptTraceError
from tracelab.collect.recording.owner import call_on_main_thread
from tracelab.collect.recording.recorder import Recorder
from tracelab.collect.recording.step_times import StepTimes
from tracelab.collect.recording.window import Window

_PAUSE_S = 0.05


class Log:
    """A profiler and a file of steps in memory."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.resumes: list[bool] = []
        self.rows: list[dict[str, Any]] = []

    def prepare(self) -> None:
        self.calls.append("prepare")

    def start(self) -> None:
        self.calls.append("start")

    def stop(self, *, resumes: bool = False) -> None:
        self.calls.append("stop")
        self.resumes.append(resumes)

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
    assert (recorder.steps, recorder.recorded_steps) == (4, 1)
    assert all(0 <= row["dur_ns"] < _PAUSE_S * 1e9 / 2 for row in log.rows)


@pytest.mark.parametrize(("since_s", "recorded"), [(-60, ["ProfilerStep#1", "ProfilerStep#2"]), (60, [])])
def test_a_request_counts_that_was_made_while_the_process_started(
    tmp_path: Path, since_s: float, recorded: list[str]
) -> None:
    request = tmp_path / "record"
    request.touch()
    log: Any = Log()
    recorder = Recorder(Window(on_demand=True, active=2), log, StepTimes(lambda: log))
    recorder.begin(request, since_s=time.time() + since_s)
    for _ in range(6):
        recorder.step()
    recorder.finish()
    assert [call for call in log.calls if call.startswith("ProfilerStep")] == recorded
    assert recorder.recorded_steps == len(recorded)


@pytest.mark.parametrize("steps", [0, 2])
@pytest.mark.parametrize(("in_block", "missing"), [(False, "no optimizer stepped"), (True, "r.step() was not called")])
def test_a_recording_without_steps_is_noted(steps: int, *, in_block: bool, missing: str) -> None:
    log: Any = Log()
    recorder = Recorder(Window(after_s=0 if steps else None), log, StepTimes(lambda: log), begins_with_step=in_block)
    recorder.begin()
    for _ in range(steps):
        recorder.step()
    recorder.finish()
    assert recorder.note == (None if steps else f"{missing} within the recording, so it has no steps")


@pytest.mark.parametrize(("in_block", "recorded"), [(False, 2), (True, 3)])
def test_the_start_of_a_program_is_no_recorded_step(*, in_block: bool, recorded: int) -> None:
    recorder = Recorder(Window(), cast("Any", Log()), StepTimes(lambda: cast("Any", Log())), begins_with_step=in_block)
    recorder.begin()
    for _ in range(3):
        recorder.step()
    recorder.finish()
    assert (recorder.steps, recorder.recorded_steps) == (3, recorded)


@pytest.mark.parametrize(("kept", "lost"), [(False, "; recording 2 is lost"), (True, "")])
def test_the_steps_of_a_recording_that_cannot_be_saved_do_not_count(*, kept: bool, lost: str) -> None:
    class Full(Log):
        """A disk with space for one recording."""

        def save(self, first_step: int | None) -> None:
            if first_step != 1:
                raise KeptTraceError if kept else OSError

    log: Any = Full()
    recorder = Recorder(Window(wait=1, active=2, cycles=3), log, StepTimes(lambda: log))
    recorder.begin()
    for _ in range(9):
        recorder.step()
    recorder.finish()
    assert (recorder.recorded_steps, recorder.windows, recorder.lost) == (2, 1, lost)


@pytest.mark.parametrize(("wait", "resumes"), [(1, [True, True, False]), (2, [False] * 3)])
def test_recording_resumes_at_once_where_the_next_window_is_prepared(wait: int, resumes: list[bool]) -> None:
    log: Any = Log()
    recorder = Recorder(Window(wait=wait, active=1, cycles=3), log, StepTimes(lambda: log))
    recorder.begin()
    for _ in range(10):
        recorder.step()
    recorder.finish()
    assert log.resumes == resumes


def test_a_program_that_ends_in_another_thread_at_the_end_of_a_step_is_saved() -> None:
    class Ending(Log):
        """Ends the program in another thread while the range of step 2 begins."""

        @contextlib.contextmanager
        def mark(self, name: str) -> Iterator[None]:
            if name.endswith("#2"):
                other.start()
                time.sleep(0.1)  # the other thread interrupts this one here
            self.calls.append(name)
            yield
            self.calls.append(f"end of {name}")

    log: Any = Ending()
    recorder = Recorder(Window(wait=1, active=9), log, StepTimes(lambda: log))
    other = threading.Thread(target=recorder.finish)
    recorder.begin()
    for _ in range(3):
        recorder.step()
    other.join()
    assert log.calls[2:] == [
        *("ProfilerStep#1", "end of ProfilerStep#1", "ProfilerStep#2"),
        *("unfinished ProfilerStep#2", "end of ProfilerStep#2", "stop", "save"),
    ]
    assert recorder.problem is None


def test_a_call_that_fails_does_not_fail_the_main_thread(capsys: pytest.CaptureFixture[str]) -> None:
    calls: list[str] = []

    def fail() -> None:
        calls.append("failed")
        raise ValueError("broken")

    thread = threading.Thread(target=call_on_main_thread, args=(fail,))
    thread.start()
    until = time.monotonic() + 10
    while not calls and time.monotonic() < until:  # SystemError at any place, if the exception passed
        time.sleep(0)
    thread.join()
    assert calls == ["failed"]
    assert "ValueError: broken" in capsys.readouterr().err


TRACED = """
import sys, threading, time
from tracelab.collect.recording.owner import call_on_main_thread

done = []

def is_over(time_s):
    return time.monotonic() > time_s

def slow():
    time_s = time.monotonic() + 0.2
    while not is_over(time_s):
        pass
    done.append("first")

def call_twice():
    call_on_main_thread(slow)
    time.sleep(0.05)
    call_on_main_thread(lambda: done.append("second"))

def trace(_frame, _event, _argument):
    return trace

def run_until_done():
    while len(done) < 2:
        is_over(0)

thread = threading.Thread(target=call_twice)
sys.settrace(trace)
thread.start()
run_until_done()
print(done)
"""


def test_a_call_during_another_does_not_stop_a_program_under_a_debugger() -> None:
    done = subprocess.run([sys.executable, "-c", TRACED], capture_output=True, check=True, text=True, timeout=30)
    assert done.stdout == "['first', 'second']\n"
