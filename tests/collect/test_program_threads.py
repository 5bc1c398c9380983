"""Programs that train in threads, or have a profiler of their own, run as without a recording, and are recorded."""

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.collect.program_recordings import names, record, recorded_steps, step_rows
from tests.needs import needs_torch
from tracelab.collect.recording.window import Window
from tracelab.collect.run_end import Result

pytestmark = [needs_torch, pytest.mark.usefixtures("_forked_programs")]

TRAINING = """
import sys, threading, time
import torch

def train(steps, each=lambda step: None):
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        optimizer.zero_grad()
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        each(step)

def train_in_thread(*arguments, **options):
    thread = threading.Thread(target=train, args=arguments, **options, name="trainer")
    thread.start()
    return thread

"""


def record_training(folder: Path, program: str, **options: Any) -> Result:
    script = folder / "threads.py"
    script.write_text(TRAINING + program)
    return record(folder, sys.executable, str(script), **options)


def test_a_program_that_trains_in_a_thread_is_recorded_from_its_second_step(tmp_path: Path) -> None:
    result = record_training(tmp_path, "train_in_thread(6).join()\nprint('trained')")
    assert (result.status, result.error) == ("ok", None)
    assert (recorded_steps(result), names(result)["aten::addmm"]) == ([1, 2, 3, 4, 5], 5)
    assert [row["step"] for row in step_rows(result)] == [1, 2, 3, 4, 5]
    assert result.note == "the program trains in the thread trainer: the recording begins with its second step"


def test_a_window_of_steps_is_that_of_the_thread_that_trains(tmp_path: Path) -> None:
    result = record_training(tmp_path, "train_in_thread(9).join()", window=Window(wait=2, active=3))
    assert (result.status, result.note, recorded_steps(result)) == ("ok", None, [2, 3, 4])
    assert names(result)["aten::addmm"] == 3


def test_the_recording_of_a_thread_that_ends_within_the_window_is_saved_and_noted(tmp_path: Path) -> None:
    program = "train_in_thread(6).join()\ntorch.ones(4, 4).mm(torch.ones(4, 4))"
    result = record_training(tmp_path, program, window=Window(wait=2, active=8))
    assert (result.status, recorded_steps(result)) == ("ok", [2, 3, 4, 5])
    assert names(result)["aten::addmm"] == 4
    assert result.note == "only 4 of 8 steps were recorded before the program ended"


def test_the_recording_of_a_thread_that_still_trains_is_saved_at_the_end_of_the_program(tmp_path: Path) -> None:
    program = "reached = threading.Event()\n"
    program += "reach = lambda step: step == 9 and reached.set()\n"
    program += "train_in_thread(10**9, reach, daemon=True)\nreached.wait(30)"
    result = record_training(tmp_path, program, window=Window(wait=2, active=10**9))
    assert (result.status, recorded_steps(result)[:8]) == ("ok", [2, 3, 4, 5, 6, 7, 8, 9])


def test_a_thread_that_cannot_save_is_named_and_the_program_ends_as_it_does(tmp_path: Path) -> None:
    program = "reached = threading.Event()\n"
    program += "wait = lambda step: step == 4 and (reached.set(), time.sleep(60))\n"
    program += "train_in_thread(9, wait, daemon=True)\nreached.wait(30)"
    result = record_training(tmp_path, program, window=Window(wait=2, active=50))
    assert (result.status, result.error) == (
        "profiler_error",
        "the thread trainer that is recorded did not come to its next step, which would save it; its recording is lost",
    )


def test_a_profiler_of_the_program_ends_the_recording_and_works_as_without(tmp_path: Path) -> None:
    program = "train(3)\nwith torch.profiler.profile() as own: train(2)\n"
    program += "assert sum(each.count for each in own.key_averages() if each.key == 'aten::addmm') == 2\ntrain(2)"
    result = record_training(tmp_path, program)
    assert (result.status, recorded_steps(result), names(result)["aten::addmm"]) == ("ok", [1, 2], 3)
    assert result.note == "the program started a profiler of its own, which ended this recording"


def test_a_profiler_of_the_program_before_the_window_is_named(tmp_path: Path) -> None:
    program = "with torch.profiler.profile() as own: train(4)\n"
    program += "assert sum(each.count for each in own.key_averages() if each.key == 'aten::addmm') == 4"
    result = record_training(tmp_path, program, window=Window(wait=2, active=2))
    assert (result.status, result.error) == (
        "profiler_error",
        "the program started a profiler of its own before the window opened; switch that one off, or choose a window "
        "before it",
    )
    assert result.note is None  # no recording was there to be ended


def test_fewer_recordings_than_requested_are_noted(tmp_path: Path) -> None:
    def note(steps: int) -> str | None:
        window = Window(wait=2, active=2, cycles=3)
        return record_training(tmp_path, f"train({steps})", window=window, force=True).note

    assert note(5) == "only 1 of 3 recordings began before the program ended"
    assert note(7) == "only 1 of 2 steps of recording 2 of 3 were recorded before the program ended"
    assert note(12) is None
