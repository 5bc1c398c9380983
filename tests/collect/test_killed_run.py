"""A run whose processes were all killed ends in its true status, once they are known to be gone."""

import fcntl
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tracelab.cli import main
from tracelab.client import Lab
from tracelab.collect.folder_lock import find_locks, lock_folder
from tracelab.collect.killed_run import finish_killed_runs, killed_outcomes
from tracelab.collect.program.outcomes import choose_records, collect_files
from tracelab.collect.program.windows import Windows
from tracelab.collect.recording.process_record import read_records

ERROR = "killed, with all of its processes, as by the end of its container or a crash of its node"
LOST = "; its recording is lost, because a process saves it when Python exits"
RUN: dict[str, Any] = {"tracelab": "run/1", "run": "r", "status": "not_run", "started_at": "2026-01-02T03:04:05+00:00"}


def write_process(processes: Path, name: str, *, rows: int = 0, rank: int = 0, **record: Any) -> Path:
    """Write what a process leaves: its record, its steps, and the traces that the record names."""
    folder = processes / name
    folder.mkdir(parents=True)
    (folder / "record.json").write_text(json.dumps({"pid": 7, "rank": rank, "host": "node"} | record))
    if rows:
        lines = [
            {"tracelab": "steps/1", "run": "r", "rank": rank},
            *({"step": n, "dur_ns": 5} for n in range(1, rows + 1)),
        ]
        (folder / f"steps.rank{rank}.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    for file in record.get("files", ()):
        (folder / file["file"]).write_text(name)
    return folder


def lock(folder: Path, **entries: Any) -> None:
    """Leave the lock of a process that is gone; entries differ from those of this machine."""
    folder.mkdir(parents=True, exist_ok=True)
    with lock_folder(folder) as write_owner:
        write_owner()
        content = (folder / ".running").read_text()
        os.link(folder / ".running", folder / "kept")
    (folder / "kept").rename(folder / ".running")
    (folder / ".running").write_text(json.dumps(json.loads(content) | entries))


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """A run folder of a program that was killed in its second window."""
    folder = tmp_path / "runs" / "r"
    lock(folder)
    lock(folder / ".processes")
    trace = {"file": "rank0.step2.pt.trace.json.gz", "events": 3}
    entries = {"steps": 4, "recorded_steps": 2, "windows": 2, "recording": True, "files": [trace]}
    write_process(folder / ".processes", "node.7", rows=9, **entries)
    (folder / "run.json").write_text(json.dumps(RUN))
    (folder / "record").touch()
    return folder


def finish(folder: Path) -> tuple[list[str], dict[str, Any]]:
    """Return the lines about the runs below a folder, and run.json of the run r."""
    lines = list(finish_killed_runs(find_locks([folder])))
    return lines, json.loads((folder / "runs" / "r" / "run.json").read_text())


def test_what_a_killed_program_left_is_kept_with_its_status_and_its_loss(tmp_path: Path, killed: Path) -> None:
    lines, content = finish(tmp_path)
    assert lines == [f"{killed}: the run was {ERROR}; it has the status failed, and what it recorded is kept"]
    assert (content["status"], content["error"], content["killed"]) == ("failed", f"{ERROR}{LOST}", True)
    rank = content["ranks"]["0"]
    assert (rank["steps"], rank["recorded_steps"], rank["windows"]) == (10, 2, 1)
    files = ["rank0.step2.pt.trace.json.gz", "run.json", "steps.rank0.jsonl"]
    assert sorted(path.name for path in killed.iterdir()) == files
    assert content["expects"] == {"ranks": [0], "files": [files[0], files[2]]}
    assert finish(tmp_path) == ([], content)


def change(where: str, **entries: Any) -> Callable[[Path], None]:
    return lambda folder: lock(folder / where, **entries)


@pytest.mark.parametrize(
    ("prepare", "is_finished"),
    [
        (change(".", boot="before"), True),  # this machine has started anew
        (change(".", host="container"), True),  # one of this machine
        (change(".", host="other", boot="other"), False),
        (change(".", inode=1), False),  # a copy
        (change(".processes.1", host="other", boot="other"), False),  # the task of another node
        (lambda folder: (folder / ".running").write_text(""), False),
        (lambda folder: (folder / "run.json").write_text(json.dumps(RUN | {"sweep": "s"})), False),
    ],
)
def test_only_a_run_whose_processes_are_known_to_be_gone_is_finished(
    tmp_path: Path, killed: Path, prepare: Callable[[Path], None], *, is_finished: bool
) -> None:
    prepare(killed)
    lines, content = finish(tmp_path)
    assert (len(lines), content["status"]) == ((1, "failed") if is_finished else (0, "not_run"))
    assert (killed / ".processes").exists() != is_finished


@pytest.mark.parametrize("where", [".", ".processes"])
def test_a_run_whose_lock_is_held_still_records(tmp_path: Path, killed: Path, where: str) -> None:
    with (killed / where / ".running").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert finish(tmp_path) == ([], RUN)


def test_tasks_of_several_nodes_are_joined(tmp_path: Path, killed: Path) -> None:
    lock(killed / ".processes.1")
    write_process(killed / ".processes.1", "other.8", rank=1, steps=3, world_size=3, rank_known=True)
    facts = {"gpus": 1, "world_size": 3, "expects": {"ranks": [2], "files": []}}
    (killed / ".outcome.rank2.json").write_text(
        json.dumps({"ranks": {2: {"status": "ok", "steps": 6}}, "facts": facts})
    )
    content = finish(tmp_path)[1]
    assert {rank: (each["status"], each["steps"]) for rank, each in content["ranks"].items()} == {
        "0": ("failed", 10),
        "1": ("failed", 3),
        "2": ("ok", 6),
    }
    assert (content["world_size"], content["gpus"], content["expects"]["ranks"]) == (3, 1, [0, 1, 2])
    assert not list(killed.glob(".*"))


def test_ingest_stores_the_true_status_of_a_killed_run(tmp_path: Path, killed: Path) -> None:
    (killed / ".processes" / "node.7" / "rank0.step2.pt.trace.json.gz").unlink()
    done = CliRunner().invoke(main, ["ingest", str(killed.parent), "--store", str(tmp_path / "lab")])
    assert (done.exit_code, done.stderr.startswith(f"{killed}: the run was killed, with all of its")) == (0, True)
    lab = Lab(tmp_path / "lab")
    (row,) = lab.sql("select status, error, (select count(*) from steps) as steps from runs").arrow().to_pylist()
    assert row == {"status": "failed", "error": f"{ERROR}{LOST}", "steps": 9}
    findings = {row["code"]: row["message"] for row in lab.doctor().arrow().to_pylist()}
    assert findings["run_failed"] == f"The run ended with status failed: {ERROR}{LOST}."
    assert "not_finished" not in findings


def test_windows_that_are_over_are_linked_and_those_of_another_process_leave_again(tmp_path: Path) -> None:
    processes = tmp_path / ".processes"
    windows = Windows(tmp_path, processes)
    names = [f"rank0.step{step}.pt.trace.json.gz" for step in (2, 6)]
    traces = [{"file": name, "events": 40 + index} for index, name in enumerate(names)]
    assert not list(windows.publish())
    write_process(processes, "node.7", steps=9, files=traces)
    ingest = f"next: tracelab ingest {tmp_path}"
    assert list(windows.publish()) == [f"{tmp_path}: saved {names[0]} and 1 more, 81 events; {ingest}"]
    assert not list(windows.publish())
    write_process(processes, "node.8", steps=20, files=traces[:1])
    assert not list(windows.publish())
    assert [(tmp_path / name).read_text() for name in names] == ["node.7", "node.7"]
    chosen = choose_records(read_records(processes))
    assert collect_files(tmp_path, processes, chosen) == names[:1]
    assert ((tmp_path / names[0]).read_text(), (tmp_path / names[1]).exists()) == ("node.8", False)


def test_a_broken_pipe_is_that_of_the_killed_collector() -> None:
    records = {
        rank: {"status": "failed", "error": error}
        for rank, error in enumerate(("BrokenPipeError: [Errno 32] Broken pipe", "ValueError: x"))
    }
    errors = {rank: outcome["error"] for rank, outcome in killed_outcomes(records, "killed").items()}
    assert errors == {0: "killed", 1: "ValueError: x"}
