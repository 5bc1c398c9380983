"""`tracelab.record`: a script records its own steps."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tracelab
from tests.collect.program_recordings import described, names, recorded_steps, step_rows
from tests.needs import needs_torch
from tracelab.collect.folder_lock import find_locks
from tracelab.collect.killed_run import finish_killed_runs
from tracelab.collect.run_end import Result
from tracelab.errors import UsageError

pytestmark = needs_torch

SCRIPT = Path(__file__).parent / "programs" / "recorded.py"


@pytest.fixture
def run_script(_fork_server):
    """Run a script as a fork, where Linux can do that, and return what it writes to stderr."""

    def run(*command: str) -> str:
        start = _fork_server.popen_program if _fork_server else subprocess.Popen
        child = start([sys.executable, *command], env=dict(os.environ), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        errors = child.stderr.read().decode()
        child.wait()
        child.stdout.close()
        child.stderr.close()
        return errors

    return run


@pytest.fixture
def run_case(tmp_path: Path, run_script):
    """Run a case of the script and return the result."""

    def run(case: str) -> Result:
        errors = run_script(str(SCRIPT), str(tmp_path), case)
        folder = tmp_path / case
        assert (folder / "run.json").exists(), errors
        content = json.loads((folder / "run.json").read_text())
        explanation = f"; {content['error']}" if content["error"] else ""
        assert (
            f"tracelab: {folder}: {content['status']}{explanation}; {content['ranks']['0']['steps']} steps taken"
            in errors
        )
        return Result(folder, content["status"], content["error"])

    return run


@pytest.mark.parametrize(("case", "steps"), [("window", [2, 3, 4]), ("first", [0, 1])])
def test_a_window_of_steps_is_recorded(run_case, case, steps) -> None:
    result = run_case(case)
    assert (result.status, result.error, recorded_steps(result)) == ("ok", None, steps)
    assert names(result)["aten::addmm"] == len(steps)
    assert described(result)["ranks"]["0"]["recorded_steps"] == len(steps)
    assert [row["step"] for row in step_rows(result)] == list(range(8))
    content = described(result)
    assert (content["profiler"], content["world_size"]) == ("kineto", 1)
    assert content["expects"]["files"] == ["rank0.pt.trace.json.gz", "steps.rank0.jsonl"]
    assert not list(result.folder.glob(".*"))


def test_traces_that_were_not_written_are_not_expected(run_case) -> None:
    assert described(run_case("late"))["expects"]["files"] == ["steps.rank0.jsonl"]


@pytest.mark.parametrize(
    ("case", "status", "error"),
    [("both", "ok", None), ("second", "failed", "rank 1: ValueError: bad"), ("neither", "ok", None)],
)
def test_each_rank_counts_in_the_status(tmp_path: Path, run_script, case: str, status: str, error: str | None) -> None:
    errors = run_script(str(SCRIPT.with_name("recorded_ranks.py")), str(tmp_path), case)
    refusals = errors.count("UsageError: ")
    content = json.loads((tmp_path / "r" / "run.json").read_text())
    if case == "neither":  # the folder has a finished run
        assert (refusals, content["status"]) == (2, "ok")
        return
    assert (content["status"], content["error"]) == (status, error), errors
    assert {rank: entry["steps"] for rank, entry in content["ranks"].items()} == {"0": 4, "1": 4}
    assert content["world_size"] == 2
    traces = [f"rank{rank}.pt.trace.json.gz" for rank in range(2)]
    assert content["expects"] == {"ranks": [0, 1], "files": [*traces, "steps.rank0.jsonl", "steps.rank1.jsonl"]}
    assert sorted(path.name for path in (tmp_path / "r").glob(".*")) == []


def test_a_killed_rank_is_named_though_the_launcher_ends_the_others(tmp_path: Path, run_script) -> None:
    run_script(str(SCRIPT.with_name("recorded_ranks.py")), str(tmp_path), "killed")
    content = json.loads((tmp_path / "r" / "run.json").read_text())
    assert (content["status"], content["error"]) == ("failed", "rank 1: has not ended the block of tracelab.record")
    assert (content["ranks"]["0"]["error"], content["ranks"]["0"]["steps"]) == (
        "RuntimeError: Connection reset by peer",
        4,
    )
    traces = [f"rank{rank}.pt.trace.json.gz" for rank in range(2)]
    assert content["expects"]["files"][:2] == [file["file"] for file in content["capture"]["files"]] == traces


def test_a_signal_records_the_next_steps(run_case) -> None:
    result = run_case("signal")
    assert recorded_steps(result, "rank0.step4.pt.trace.json.gz") == [4, 5]
    assert result.status == "ok"


def test_a_block_without_a_request_has_a_note(run_case) -> None:
    result = run_case("unasked")
    assert (result.status, described(result)["ranks"]["0"]["note"]) == (
        "ok",
        "no request came, so nothing was recorded",
    )


def test_an_error_is_the_status_and_what_was_recorded_is_kept(run_case) -> None:
    result = run_case("error")
    assert (result.status, result.error) == ("oom", "memory ran out")
    assert (recorded_steps(result), names(result)["Partial_Step#5"]) == ([0, 1, 2, 3, 4], 1)


def test_a_block_in_which_os_exit_ends_the_process_is_kept(run_case) -> None:
    result = run_case("exit")
    assert (result.status, result.error) == ("failed", "ended with exit code 3")
    assert (recorded_steps(result), len(step_rows(result))) == ([0, 1, 2, 3, 4], 5)


def test_a_block_in_which_sigterm_ends_the_process_is_kept(run_case) -> None:
    result = run_case("terminated")
    assert (result.status, result.error, described(result)["killed"]) == ("failed", "ended by SIGTERM", True)
    traces = [f"rank0.step{step}.pt.trace.json.gz" for step in (1, 4)]
    assert [recorded_steps(result, name) for name in traces] == [[1, 2], [4]]
    assert not list(result.folder.glob(".*"))


def test_a_block_that_is_stuck_in_a_library_ends_by_sigterm_and_names_its_loss(run_case) -> None:
    result = run_case("stuck")
    error = "killed: a library did not return after SIGTERM; its recording is lost"
    assert (result.status, result.error) == ("failed", error)
    assert recorded_steps(result, "rank0.step1.pt.trace.json.gz") == [1, 2]


def test_a_killed_block_has_that_as_status_and_names_the_window_that_is_lost(tmp_path: Path, run_script) -> None:
    errors = run_script(str(SCRIPT), str(tmp_path), "killed")
    folder = tmp_path / "killed"
    saved = f"tracelab: {folder}: saved rank0.step1.pt.trace.json.gz, "
    assert [line.startswith(saved) for line in errors.splitlines() if line.startswith("tracelab")] == [True], errors
    assert len(list(finish_killed_runs(find_locks([folder])))) == 1
    result = Result(folder, "failed", None)
    content = described(result)
    assert (content["status"], content["error"].startswith("killed, with all of its processes, ")) == ("failed", True)
    assert "; its recording is lost, " in content["error"]
    assert (content["ranks"]["0"]["windows"], recorded_steps(result, "rank0.step1.pt.trace.json.gz")) == (1, [1, 2])
    assert not list(folder.glob(".*"))


def test_a_block_that_ends_before_its_window_has_that_as_status(run_case) -> None:
    result = run_case("late")
    assert (result.status, result.error) == (
        "profiler_error",
        "the block ended after 8 steps, before the window opened: 1 optimizer step after 50 optimizer steps",
    )


def test_a_refusal_names_the_arguments_of_the_block(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^wait 'x': must be a whole number, from 0 on$"):
        tracelab.record("r", out=tmp_path, wait="x")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"^for_s True: must be a number, from 0 on$"):
        tracelab.record("r", out=tmp_path, for_s=True)
    with pytest.raises(UsageError, match=r"^cycles needs wait or after_s between the recordings$"):
        tracelab.record("r", out=tmp_path, cycles=2)
    folder = tmp_path / "r"
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps({"tracelab": "run/1", "status": "ok"}))
    with pytest.raises(UsageError, match=r"finished run \(ok\); add force=True to replace it$"):
        tracelab.record("r", out=tmp_path).__enter__()


@pytest.mark.parametrize("call", ["step", "request"])
def test_a_recording_without_a_block_is_refused(tmp_path: Path, call: str) -> None:
    recording = tracelab.record("r", out=tmp_path, on_demand=True)
    with pytest.raises(UsageError, match=r"^tracelab.record records a block alone; write `with tracelab.record"):
        getattr(recording, call)()
    assert not list(tmp_path.iterdir())


def test_a_step_outside_the_window_makes_few_calls(run_case) -> None:
    """`benchmarks/step_cost.py` measures its time, which tests do not depend on."""
    result = run_case("cost")
    calls = json.loads((result.folder.parent / "cost.json").read_text())
    steps = 2000
    assert calls["call"] <= 3 * steps, calls
    assert calls["c_call"] <= 2 * steps + 1, calls  # the last one ends the count
    rows = [row["step"] for row in step_rows(result)]
    assert rows == list(range(8 + steps))
