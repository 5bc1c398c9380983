"""Temporary folders: one for each process, and none that outlives its process for long."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

HOLD = "import sys; from tracelab.temp_folders import new_path\nnew_path('x').mkdir(); print('up', flush=True); input()"


def start(temporary: Path, program: str = HOLD) -> "subprocess.Popen[str]":
    """Start a process with a temporary folder of its own, and wait until it has created it."""
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        env=os.environ | {"TMPDIR": str(temporary)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    return process


def test_a_process_deletes_its_folder_when_it_exits(tmp_path: Path) -> None:
    process = start(tmp_path)
    (folder,) = tmp_path.iterdir()
    assert folder.stat().st_mode & 0o077 == 0
    assert [path.name for path in folder.iterdir()] == ["x-0"]
    process.communicate("\n", timeout=30)
    assert list(tmp_path.iterdir()) == []


def test_the_folder_of_a_killed_process_is_deleted_by_the_next_one_and_that_of_a_living_one_stays(
    tmp_path: Path,
) -> None:
    living, killed = start(tmp_path), start(tmp_path)
    killed.send_signal(signal.SIGKILL)
    killed.communicate(timeout=30)
    assert len(list(tmp_path.iterdir())) == 2
    start(tmp_path).communicate("\n", timeout=30)
    assert len(list(tmp_path.iterdir())) == 1
    living.communicate("\n", timeout=30)
    assert list(tmp_path.iterdir()) == []


def test_a_fork_has_a_folder_of_its_own_and_leaves_its_parents(tmp_path: Path) -> None:
    program = (
        "import os, sys; from tracelab.temp_folders import process_folder\n"
        "parents = process_folder()\n"
        "child = os.fork()\n"
        "if child == 0: assert process_folder() != parents; sys.exit()\n"
        "os.waitpid(child, 0)\n"
        "print([str(parents)] == [entry.path for entry in os.scandir(parents.parent)])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, list(tmp_path.iterdir())) == ("True\n", [])


@pytest.mark.parametrize("kind", ["file", "link"])
def test_what_only_has_such_a_name_stays(tmp_path: Path, kind: str) -> None:
    process = start(tmp_path)
    name = next(tmp_path.iterdir()).name[:-8] + "other"
    process.communicate("\n", timeout=30)
    target = tmp_path / "mine"
    target.mkdir()
    (target / "work").touch()
    if kind == "file":
        (tmp_path / name).touch()
    else:
        (tmp_path / name).symlink_to(target)
    start(tmp_path).communicate("\n", timeout=30)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", name]
    assert (target / "work").exists()
