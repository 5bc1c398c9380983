"""Processes are supervised: crashes, hangs and time limits end, and what else was started ends with them."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from tracelab.collect import launch
from tracelab.collect.launch import Interrupted, Worker, interruptible, supervise

SLEEP = "import time; time.sleep(60)"
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "GRACE_S", 0.5)
    monkeypatch.setattr(launch, "COLLATERAL_S", 0.2)


def started(folder: Path, rank: int, code: str) -> Worker:
    return launch.launch([sys.executable, "-c", code], os.environ, rank, folder / str(rank))


def awaited(path: Path, text: str) -> None:
    until = time.monotonic() + 60
    while text not in path.read_text() and time.monotonic() < until:
        time.sleep(0.02)


def test_what_a_process_printed_and_how_it_ended_is_known(tmp_path: Path) -> None:
    (end,) = supervise([started(tmp_path, 0, "import sys; print('hello'); sys.exit(3)")], None)
    assert (end.code, end.why, end.output) == (3, "itself", "hello\n")


def test_a_process_that_is_killed_ends_the_others(tmp_path: Path) -> None:
    killed, waiting = started(tmp_path, 0, "import os; os.kill(os.getpid(), 9)"), started(tmp_path, 1, SLEEP)
    ends = supervise([killed, waiting], None)
    assert [(end.code, end.why) for end in ends] == [(-signal.SIGKILL, "others"), (-signal.SIGTERM, "others")]


def test_a_process_that_ignores_the_time_limit_is_killed(tmp_path: Path) -> None:
    worker = started(tmp_path, 0, STUBBORN)
    awaited(worker.log, "up")
    (end,) = supervise([worker], 0.1)
    assert (end.code, end.why) == (-signal.SIGKILL, "timeout")


def test_children_of_a_process_do_not_outlive_it(tmp_path: Path) -> None:
    code = f"import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', {SLEEP!r}]).pid)"
    (end,) = supervise([started(tmp_path, 0, code)], None)
    until = time.monotonic() + 30
    while (
        (alive := Path(f"/proc/{end.output.strip()}/cmdline")).exists()
        and alive.read_bytes()
        and time.monotonic() < until
    ):
        time.sleep(0.02)
    assert not alive.exists() or not alive.read_bytes()


def test_a_process_hears_when_its_parent_is_gone(tmp_path: Path) -> None:
    worker = started(tmp_path, 0, "import sys; sys.stdin.buffer.read(); sys.exit(7)")
    worker.held.close()
    assert worker.process.wait(60) == 7


def test_ctrl_c_is_raised_once_and_ignored_while_cleaning_up() -> None:
    with pytest.raises(Interrupted) as raised, interruptible():
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
    assert raised.value.number == signal.SIGINT
