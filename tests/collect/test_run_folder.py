"""Files of a run folder are whole or absent, and a folder belongs to one run at a time."""

import contextlib
import fcntl
import gzip
import json
import os
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tracelab.collect.folder_lock import LOCK
from tracelab.collect.run_end import finish_run
from tracelab.collect.run_folder import (
    JsonLines,
    atomic_file,
    claim_run_folder,
    read_run_json,
    release_reserve,
    timed_name,
    write_gzip,
    write_json,
)
from tracelab.collect.sweep.state import is_running
from tracelab.errors import UsageError


def run_json(folder: Path, status: str, **entries: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "run.json", {"tracelab": "run/1", "run": folder.name, "status": status} | entries)


def test_a_file_that_fails_on_the_way_leaves_the_old_one(tmp_path: Path) -> None:
    write_json(tmp_path / "run.json", {"old": 1})
    with pytest.raises(RuntimeError, match="on the way"), atomic_file(tmp_path / "run.json") as file:
        file.write(b"half")
        raise RuntimeError("on the way")
    assert ([path.name for path in tmp_path.iterdir()], json.loads((tmp_path / "run.json").read_text())) == (
        ["run.json"],
        {"old": 1},
    )


def test_a_number_that_json_lacks_is_never_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nan"):
        write_json(tmp_path / "run.json", {"loss": float("nan")})


def test_lines_are_on_the_disk_before_the_file_is_closed(tmp_path: Path) -> None:
    lines = JsonLines(tmp_path / "steps.rank3.jsonl", "steps/1", "r", 3)
    lines.append({"step": 0})
    text = (tmp_path / "steps.rank3.jsonl").read_text()
    lines.close()
    assert text == '{"tracelab": "steps/1", "run": "r", "rank": 3}\n{"step": 0}\n'


def test_a_compressed_file_holds_the_same(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 5_000_000)
    write_gzip(tmp_path / "a", tmp_path / "a.gz")
    assert gzip.decompress((tmp_path / "a.gz").read_bytes()) == b"x" * 5_000_000


def test_a_run_that_recorded_nothing_is_replaced(tmp_path: Path) -> None:
    run_json(tmp_path / "r", "not_run")
    (tmp_path / "r" / "host_samples.0.jsonl").write_text("half")
    with claim_run_folder(tmp_path / "r", force=False):
        assert sorted(path.name for path in (tmp_path / "r").iterdir()) == [".reserve", ".running"]
    assert [path.name for path in tmp_path.glob("*/**")] == ["r"]


def test_what_killed_runs_recorded_is_set_aside_and_that_is_reported(tmp_path: Path) -> None:
    lines: list[str] = []
    for rows in (1, 2):
        run_json(tmp_path / "r", "not_run")
        (tmp_path / "r" / "steps.rank0.jsonl").write_text("{}\n" * (1 + rows))
        with claim_run_folder(tmp_path / "r", force=False, report=lines.append):
            assert sorted(path.name for path in (tmp_path / "r").iterdir()) == [".reserve", ".running"]
        kept = tmp_path / f"r-killed-{rows}"
        content = read_run_json(kept) or {}
        assert (content["run"], content["status"], content["killed"]) == (kept.name, "failed", True)
        assert content["ranks"]["0"]["steps"] == rows
        assert sorted(path.name for path in kept.iterdir()) == ["run.json", "steps.rank0.jsonl"]
        assert lines[-1] == f"{tmp_path / 'r'}: had what a killed run recorded, which is now {kept}"


@pytest.mark.parametrize(("force", "entries"), [(True, {}), (False, {"sweep": "s"})])
def test_a_killed_run_is_replaced_by_force_and_in_a_sweep(
    tmp_path: Path, *, force: bool, entries: dict[str, str]
) -> None:
    run_json(tmp_path / "r", "not_run", **entries)
    (tmp_path / "r" / "steps.rank0.jsonl").write_text("half")
    with claim_run_folder(tmp_path / "r", force=force):
        pass
    assert [path.name for path in tmp_path.glob("*/**")] == ["r"]


@pytest.mark.parametrize(("number", "is_refused"), [(signal.SIGTERM, False), (signal.SIGINT, True)])
def test_a_run_that_a_scheduler_ended_is_set_aside_and_one_that_its_user_ended_is_refused(
    tmp_path: Path, number: int, *, is_refused: bool
) -> None:
    run_json(tmp_path / "r", "not_run")
    (tmp_path / "r" / "steps.rank0.jsonl").write_text("{}")
    description = json.loads((tmp_path / "r" / "run.json").read_text()) | {
        **dict.fromkeys(("profiler", "gpus", "gpu", "pin_memory")),
        **{name: {} for name in ("axes", "environment", "versions", "capture")},
    }
    (tmp_path / "r" / ".outcomes").mkdir()  # of tracelab.record, where other ranks vanished
    finish_run(tmp_path / "r", description, {0: {"status": "failed"}}, number)
    refusal = pytest.raises(UsageError, match="finished run") if is_refused else contextlib.nullcontext()
    with refusal, claim_run_folder(tmp_path / "r", force=False):
        pass
    assert (tmp_path / "r-killed-1").exists() != is_refused


def test_a_run_that_ended_stays(tmp_path: Path) -> None:
    run_json(tmp_path / "r", "oom")
    with (
        pytest.raises(UsageError, match=r"contains a finished run \(oom\); add --force"),
        claim_run_folder(tmp_path / "r", force=False),
    ):
        pass
    assert read_run_json(tmp_path / "r") == {"tracelab": "run/1", "run": "r", "status": "oom"}


def test_a_run_that_ended_is_replaced_by_force(tmp_path: Path) -> None:
    run_json(tmp_path / "r", "ok")
    with claim_run_folder(tmp_path / "r", force=True):
        assert read_run_json(tmp_path / "r") is None


def test_files_of_others_are_never_removed(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years")
    with (
        pytest.raises(UsageError, match="contains files other than"),
        claim_run_folder(tmp_path, force=True),
    ):
        pass
    assert (tmp_path / "thesis.tex").read_text() == "years"


def test_two_runs_cannot_write_to_one_folder(tmp_path: Path) -> None:
    with claim_run_folder(tmp_path / "r", force=True):
        with (
            pytest.raises(UsageError, match="another process is writing a run there"),
            claim_run_folder(tmp_path / "r", force=True),
        ):
            pass
        assert (tmp_path / "r" / ".running").exists()


ABANDONED = """
import os, pathlib, sys
from tracelab.collect.run_folder import claim_run_folder
from tracelab.collect.process.launch import launch

folder = pathlib.Path(sys.argv[1])
with claim_run_folder(folder, force=False):
    worker = launch([sys.executable, "-c", "import time; time.sleep(600)"], os.environ, 0, folder.parent / "scratch")
    print(worker.process.pid, flush=True)
    os._exit(9)
"""


def test_a_folder_is_its_run_s_as_long_as_a_rank_lives(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ABANDONED, str(tmp_path / "r")]
    rank = int(subprocess.run(command, capture_output=True, text=True, check=False).stdout)
    try:
        assert is_running(tmp_path / "r")
        with (
            pytest.raises(UsageError, match="another process is writing a run there"),
            claim_run_folder(tmp_path / "r", force=True),
        ):
            pass
    finally:
        os.kill(rank, signal.SIGKILL)
    until = time.monotonic() + 60
    while is_running(tmp_path / "r") and time.monotonic() < until:
        time.sleep(0.05)
    with claim_run_folder(tmp_path / "r", force=False):
        pass


def test_a_run_begins_although_a_sweep_looks_at_its_folder(tmp_path: Path) -> None:
    (tmp_path / "r").mkdir()
    with (tmp_path / "r" / LOCK).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        threading.Timer(0.15, lambda: fcntl.flock(file, fcntl.LOCK_UN)).start()
        with claim_run_folder(tmp_path / "r", force=False):
            assert is_running(tmp_path / "r")


def test_space_is_kept_back_until_it_is_needed(tmp_path: Path) -> None:
    with claim_run_folder(tmp_path / "r", force=False):
        kept = (tmp_path / "r" / ".reserve").stat().st_size
        release_reserve(tmp_path / "r")
        assert (kept, (tmp_path / "r" / ".reserve").exists()) == (262_144, False)


def test_a_name_by_time_is_free_also_for_runs_of_one_second(tmp_path: Path) -> None:
    now = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert timed_name(tmp_path, "train", now) == "train-20260102T030405"
    (tmp_path / "train-20260102T030405-kineto").mkdir()  # one of several profilers
    assert timed_name(tmp_path, "train", now) == "train-20260102T030405-2"
    (tmp_path / "train-20260102T030405-2").mkdir()
    assert timed_name(tmp_path, "train", now) == "train-20260102T030405-3"
    assert len(timed_name(tmp_path, "x" * 200, now)) == 86
