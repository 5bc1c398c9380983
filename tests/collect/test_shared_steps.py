"""Steps that a process did not write before it was killed are written from the memory that it shared."""

import json
import socket
from pathlib import Path

import pytest

from tracelab.collect.recording import shared_steps
from tracelab.collect.recording.shared_steps import SharedStepTimes, complete_records, open_memory
from tracelab.collect.recording.step_times import steps_file
from tracelab.collect.run_folder import JsonLines

MS = 1_000_000
OVERHEADS = {2: MS, 5: 3 * MS}
"""The profiler's part of two of the steps, each of which ends 10 ms after the one before."""


@pytest.fixture
def process(tmp_path: Path) -> Path:
    """The folder of a process of the run r."""
    folder = tmp_path / "r" / ".processes" / "node.7"
    folder.mkdir(parents=True)
    return folder


def take_steps(scratch: Path, folder: Path, steps: int, *, written: int) -> SharedStepTimes:
    """Take steps, of which only the first are written, as a process that is killed within 0.1 s of the last one."""
    files: list[JsonLines] = []

    def open_file() -> JsonLines:
        files.append(steps_file(folder, "r", 0))
        return files[-1]

    times = SharedStepTimes(open_file, open_memory(scratch, folder.name))
    for number in range(steps):
        if number == written:
            times.flush()
        if number in OVERHEADS:
            times.end(number * 10 * MS, OVERHEADS[number])
        else:
            times.note(number * 10 * MS)
    if written == steps:
        times.flush()
    for file in files:
        file.close()
    return times


def complete(scratch: Path, folder: Path, **entries: object) -> tuple[dict[str, object], list[tuple[int, int]]]:
    """Return the completed record, and number and duration of the rows of steps."""
    record = {"pid": 7, "rank": 0, "host": socket.gethostname(), "folder": folder.name} | entries
    (completed,) = complete_records([record], scratch, folder.parent, "r")
    (path,) = folder.glob("*.jsonl")
    header, *rows = map(json.loads, path.read_text().splitlines())
    assert header == {"tracelab": "steps/1", "run": "r", "rank": 0}
    since_first_ns = [row["start_ns"] - rows[0]["start_ns"] for row in rows]
    assert since_first_ns == pytest.approx([(row["step"] - 1) * 10 * MS for row in rows], abs=MS)
    return completed, [(row["step"], row["dur_ns"]) for row in rows]


@pytest.mark.parametrize("written", [0, 1, 2, 3, 6, 9])
def test_rows_are_those_that_the_process_would_have_written(tmp_path: Path, process: Path, written: int) -> None:
    take_steps(tmp_path, process, 9, written=written)
    completed, rows = complete(tmp_path, process)
    assert rows == [(number, 10 * MS - OVERHEADS.get(number, 0)) for number in range(1, 9)]
    assert (completed["steps"], completed.get("note")) == (9, None)


def test_half_a_line_is_written_again(tmp_path: Path, process: Path) -> None:
    take_steps(tmp_path, process, 6, written=4)
    with (process / "steps.rank0.jsonl").open("a") as file:
        file.write('{"start_ns": 17')
    assert [number for number, _ in complete(tmp_path, process)[1]] == [1, 2, 3, 4, 5]


def test_steps_that_the_memory_no_longer_holds_are_counted(
    tmp_path: Path, process: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_steps, "_ENDS", 4)
    take_steps(tmp_path, process, 9, written=3)
    completed, rows = complete(tmp_path, process)
    assert [number for number, _ in rows] == [1, 2, 6, 7, 8]  # the end of step 5 begins step 6
    assert completed["note"] == "the times of the last 3 steps are lost, because the process ended abruptly"


@pytest.mark.parametrize("entries", [{"host": "another"}, {"steps_problem": "the disk is full"}])
def test_no_rows_are_written_for_another_node_or_to_a_full_disk(
    tmp_path: Path, process: Path, entries: dict[str, object]
) -> None:
    take_steps(tmp_path, process, 6, written=4)
    completed, rows = complete(tmp_path, process, steps=6, **entries)
    assert [number for number, _ in rows] == [1, 2, 3]
    assert completed["note"] == "the times of the last 2 steps are lost, because the process ended abruptly"


def test_a_forked_child_does_not_write_to_the_memory_of_its_parent(tmp_path: Path, process: Path) -> None:
    times = take_steps(tmp_path, process, 3, written=0)
    times.abandon()
    times.note(1)
    assert complete(tmp_path, process)[0]["steps"] == 3
