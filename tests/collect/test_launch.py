"""Processes are supervised: crashes, hangs and time limits end, and what else was started ends with them."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tracelab.collect.process import launch
from tracelab.collect.process.launch import END_SIGNALS, Interrupted, Worker, raise_on_signals, supervise
from tracelab.collect.program.signals import handle_signals

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


def test_a_process_that_writes_what_it_recorded_gets_the_time_for_it(tmp_path: Path) -> None:
    mark = tmp_path / "0" / launch.SAVING
    code = f"import pathlib; {STUBBORN.replace('60', '2')}; pathlib.Path({str(mark)!r}).unlink()"
    worker = started(tmp_path, 0, code)
    mark.touch()
    awaited(worker.log, "up")
    (end,) = supervise([worker], 0.1)
    assert (end.code, end.why) == (0, "timeout")


def test_a_process_that_never_ends_writing_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "SAVE_S", 1.0)
    worker = started(tmp_path, 0, STUBBORN)
    (tmp_path / "0" / launch.SAVING).touch()
    awaited(worker.log, "up")
    (end,) = supervise([worker], 0.1)
    assert (end.code, end.why) == (-signal.SIGKILL, "timeout")


def test_a_profiler_that_writes_its_report_gets_the_time_for_it(tmp_path: Path) -> None:
    """The training process within has ended; what is left of the command is the profiler."""
    code = "import pathlib, subprocess, sys, time; training = subprocess.Popen([sys.executable, '-c', ''])\n"
    code += f"pathlib.Path({str(tmp_path / '0' / 'pid')!r}).write_text(str(training.pid)); training.wait(); "
    worker = started(tmp_path, 0, f"{code}{STUBBORN.replace('60', '2')}")
    awaited(worker.log, "up")
    (end,) = supervise([worker], 0.1)
    assert (end.code, end.why) == (0, "timeout")


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


ORPHAN = """
import time, pathlib
from tracelab.collect.training import worker
from tracelab.collect.process.cancellation import Cancellation
worker.GRACE_S = 0.5
worker._end_with_parent(Cancellation(), pathlib.Path({scratch!r}))
print("up", flush=True)
while True:
    try:
        time.sleep(60)
    except BaseException as error:
        print(type(error).__name__, flush=True)
"""


def test_a_rank_that_takes_no_notice_ends_soon_after_its_parent_is_gone(tmp_path: Path) -> None:
    worker = started(tmp_path, 0, ORPHAN.format(scratch=str(tmp_path / "0")))
    awaited(worker.log, "up")
    with worker.log.open() as log:  # it clears up behind itself
        worker.held.close()
        assert (worker.process.wait(60), log.read(), worker.scratch.exists()) == (1, "up\nCanceledError\n", False)


@pytest.fixture
def hangup() -> Iterator[Callable[[signal.Handlers], object]]:
    """Sets what this process does without a terminal: the tests themselves may run under nohup."""
    before = signal.getsignal(signal.SIGHUP)
    yield lambda action: signal.signal(signal.SIGHUP, action)
    signal.signal(signal.SIGHUP, before)


def test_a_terminal_that_is_gone_ends_a_run(hangup: Callable[[signal.Handlers], object]) -> None:
    hangup(signal.SIG_DFL)
    with pytest.raises(Interrupted) as raised, raise_on_signals():
        os.kill(os.getpid(), signal.SIGHUP)
        time.sleep(1)
    assert raised.value.number == signal.SIGHUP


def test_under_nohup_a_terminal_may_go(hangup: Callable[[signal.Handlers], object]) -> None:
    hangup(signal.SIG_IGN)
    with raise_on_signals():
        os.kill(os.getpid(), signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_a_scheduler_that_warns_ends_a_run_but_not_a_program_that_gets_the_warning() -> None:
    with pytest.raises(Interrupted) as raised, raise_on_signals():
        os.kill(os.getpid(), signal.SIGUSR1)
        time.sleep(1)
    assert raised.value.cause == "interrupted by SIGUSR1"
    passed_on: list[int] = []
    with handle_signals((signal.SIGUSR1,), passed_on.append), raise_on_signals(signals=END_SIGNALS):
        os.kill(os.getpid(), signal.SIGUSR1)
    assert passed_on == [signal.SIGUSR1]


def test_ctrl_c_is_raised_once_and_ignored_while_cleaning_up() -> None:
    with pytest.raises(Interrupted) as raised, raise_on_signals():
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
    assert raised.value.number == signal.SIGINT
