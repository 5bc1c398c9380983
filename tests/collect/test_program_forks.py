"""Processes that a recorded program forks end as without a recording; those that train are recorded."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.collect.program_recordings import LOOP, described, names, record, recorded_steps, step_rows
from tests.needs import needs_torch
from tracelab.collect.process.launch import ProcessExit
from tracelab.collect.program.outcomes import ProgramEnd, choose_records, program_outcomes
from tracelab.collect.recording.window import Window

pytestmark = needs_torch

PROGRAMS = Path(__file__).parent / "programs"
MULTIPROCESSING = """
import multiprocessing, sys
import torch, torch.distributed as dist

def train(rank, rendezvous):
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        optimizer.zero_grad()
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
    if rank == 1 and sys.argv[2:]:
        raise KeyError("height")

context = multiprocessing.get_context("fork")
processes = [context.Process(target=train, args=(rank, sys.argv[1])) for rank in range(2)]
for each in processes:
    each.start()
for each in processes:
    each.join()
sys.exit(max(each.exitcode for each in processes))
"""


@pytest.mark.usefixtures("_programs_in_new_processes")
def test_children_of_an_open_window_profile_train_and_exit_by_their_own_codes(tmp_path: Path) -> None:
    result = record(tmp_path, sys.executable, str(PROGRAMS / "forked.py"), timeout_s=120.0)
    log = result.folder / "rank0.log"
    assert (result.status, result.error) == ("ok", None), log.exists() and log.read_text()
    assert (recorded_steps(result), names(result)["aten::addmm"]) == ([1, 2, 3, 4, 5, 6, 7], 8)
    assert [row["step"] for row in step_rows(result)] == [1, 2, 3, 4, 5, 6, 7]
    assert result.note == "left out 1 recording of other processes without a rank of their own (forked.py)"


@pytest.mark.usefixtures("_forked_programs")
def test_forked_ranks_of_multiprocessing_are_recorded_from_their_first_step(tmp_path: Path) -> None:
    script = tmp_path / "ranks.py"
    script.write_text(MULTIPROCESSING)
    result = record(tmp_path, sys.executable, str(script), str(tmp_path / "rendezvous"))
    assert (result.status, result.error, list(described(result)["ranks"])) == ("ok", None, ["0", "1"])
    for rank in range(2):
        assert recorded_steps(result, f"rank{rank}.pt.trace.json.gz") == [1, 2, 3]


@pytest.mark.usefixtures("_forked_programs")
def test_the_exception_of_a_forked_rank_is_its_status(tmp_path: Path) -> None:
    script = tmp_path / "ranks.py"
    script.write_text(MULTIPROCESSING)
    result = record(tmp_path, sys.executable, str(script), str(tmp_path / "rendezvous"), "fail")
    assert (result.status, result.error) == ("failed", "rank 1: KeyError: 'height'")
    assert [recorded_steps(result, f"rank{rank}.pt.trace.json.gz") for rank in range(2)] == [[1, 2, 3], [1, 2, 3]]


@pytest.mark.usefixtures("_forked_programs")
def test_a_window_of_forked_ranks_is_that_of_each(tmp_path: Path) -> None:
    script = tmp_path / "ranks.py"
    script.write_text(MULTIPROCESSING)
    window = Window(wait=1, active=2)
    result = record(tmp_path, sys.executable, str(script), str(tmp_path / "rendezvous"), window=window)
    assert result.status == "ok"
    assert [recorded_steps(result, f"rank{rank}.pt.trace.json.gz") for rank in range(2)] == [[1, 2], [1, 2]]


def test_a_child_that_leaves_a_recorded_block_changes_nothing_in_the_run_folder(tmp_path: Path) -> None:
    program = "import os, sys, torch, tracelab\nwith tracelab.record('r', out=sys.argv[1]) as r:\n"
    program += "    r.step(); child = os.fork()\n    if not child: r.step(); sys.exit(5)\n"
    program += "    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), os.path.exists(r.folder / '.running'))\n"
    program += "    r.step()"
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.stdout == "5 True\n", done.stderr
    content = json.loads((tmp_path / "r" / "run.json").read_text())
    assert (content["status"], content["ranks"]["0"]["steps"]) == ("ok", 2)


def test_the_recording_with_most_steps_of_a_rank_is_kept_and_the_others_are_counted() -> None:
    def process_record(pid: int, steps: int, **entries: object) -> dict[str, object]:
        return {"pid": pid, "rank": 0, "steps": steps, "files": [{"events": 1}]} | entries

    records = [process_record(1, 0), process_record(2, 5, note="late"), process_record(3, 4), process_record(4, 2)]
    chosen = choose_records(records)[0]
    assert (chosen["pid"], chosen["note"]) == (
        2,
        "late; left out 2 recordings of other processes without a rank of their own",
    )
    assert "note" not in choose_records(records[:1])[0]
    inference = [process_record(pid, 0, ops=20, program="infer.py") for pid in (6, 7)]
    assert [choose_records([*each, inference[0]])[0]["note"] for each in ([records[2]], inference[1:])] == [
        "left out 1 recording of other processes without a rank of their own (infer.py)"
    ] * 2
    lost = process_record(5, 9, files=[])  # by os._exit
    assert [choose_records([lost, other])[0]["pid"] for other in records[:3]] == [5, 2, 3]


@pytest.mark.parametrize(
    ("window", "steps", "note"),
    [
        (Window(), 3, "the program replaced itself by exec after 5 steps, whose open window is lost"),
        (Window(wait=1, active=1), 5, "the program replaced itself by exec; left out 1 recording of"),
    ],
)
@pytest.mark.usefixtures("_programs_in_new_processes")
def test_a_program_that_replaces_itself_overwrites_no_recording(
    tmp_path: Path, window: Window, steps: int, note: str
) -> None:
    again = "if len(sys.argv) == 1: sys.stdout.flush(); os.execv(sys.executable, [sys.executable, __file__, 'again'])"
    script = tmp_path / "loop.py"
    script.write_text(LOOP.format(steps="5 if len(sys.argv) == 1 else 3", each="pass", after=again))
    result = record(tmp_path, sys.executable, str(script), window=window)
    assert (result.status, result.error, described(result)["ranks"]["0"]["steps"]) == ("ok", None, steps)
    assert str(result.note).startswith(note)
    assert [row["step"] for row in step_rows(result)] == list(range(1, steps))
    assert recorded_steps(result) == ([1, 2] if window.wait is None else [1])


@pytest.mark.parametrize(("code", "outcome"), [(0, ("ok", None)), (1, ("failed", "ended by SIGTERM"))])
def test_a_process_that_its_program_terminates_is_no_failure_of_that(
    code: int, outcome: tuple[str, str | None]
) -> None:
    program = ProgramEnd(ProcessExit(0, code, "itself", ""), 1, "none", Window())
    worker = {"pid": 2, "rank": 0, "steps": 3, "terminated": True, "ended": 1.0}  # of a pool
    ended = program_outcomes(program, {0: worker})[0]
    assert (ended["status"], ended.get("error")) == outcome
