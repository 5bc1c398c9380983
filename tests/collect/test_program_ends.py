"""How `tracelab collect run` ends: with the program's exit code, its true cause, and nothing left behind."""

import json
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from tests.collect.gpu_node import FAKES
from tests.collect.program_recordings import EXAMPLE, LOOP, record, recorded_steps
from tests.needs import needs_torch
from tracelab.cli import collect_run, main
from tracelab.collect import status
from tracelab.collect.folder_lock import find_locks
from tracelab.collect.killed_run import finish_killed_runs
from tracelab.collect.process.launch import ProcessExit
from tracelab.collect.program import orphan
from tracelab.collect.program.outcomes import ProgramEnd, program_outcomes
from tracelab.collect.program.terminal import follow_size, open_terminals
from tracelab.collect.recording.process_record import is_running
from tracelab.collect.recording.window import Window
from tracelab.collect.run_end import Result

pytestmark = [needs_torch, pytest.mark.usefixtures("_forked_programs")]


@pytest.mark.parametrize(
    ("program", "code", "error"),
    [
        ("import torch; print('done'); sys.exit(3)", 3, "ended with exit code 3"),
        ("import torch; print('done'); raise KeyError('height')", 1, "KeyError: 'height'"),
        ("import torch; print('done'); os._exit(4)", 4, "ended with exit code 4; 0 steps taken, 1 trace"),
        ("import torch; print('done'); os.kill(os.getpid(), 9)", 137, "killed by SIGKILL; its recording is lost"),
        ("import torch; ctypes.CDLL(None)._exit(0)", 1, "the process ended by exec or a library's _exit"),
    ],
)
def test_the_exit_code_is_that_of_the_program_and_its_output_no_cause(
    tmp_path: Path, program: str, code: int, error: str
) -> None:
    script = tmp_path / "script.py"
    script.write_text(f"import ctypes, os, sys\n{program}")
    options = ["--out", str(tmp_path), "--run", "r", "--sample-s", "0"]
    done = CliRunner().invoke(collect_run.command, [*options, "--", sys.executable, str(script)])
    assert done.exit_code == code, done.output
    assert f"/r: {'profiler_error' if '_exit(0)' in program else 'failed'}; {error}" in done.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["collect", "run", "--steps", "3", "--", "true"], "no option '--steps'; did you mean --active?"),
        (["collect", "run", "--name=x", "--", "true"], "did you mean --run?"),
        (["collect", "run", "--windw", "3", "--", "true"], "No such option '--windw'"),
        (["collect", "run", "--", str(EXAMPLE)], f"is a Python script and no program; run it as python {EXAMPLE}"),
        (["collect", "run", "--out", str(EXAMPLE.parent), "--run", "mnist.py", "--", "true"], "choose another --run"),
        (["run", "--", "true"], "no command 'run'; did you mean 'tracelab collect run'?"),
        (["record"], "no command 'record'; did you mean 'tracelab collect run'?"),
    ],
)
def test_a_command_that_is_nearly_right_gets_the_right_one(words: list[str], message: str) -> None:
    done = CliRunner().invoke(main, words)
    assert (done.exit_code, message in done.stderr) == (2, True), done.stderr


def test_the_exception_of_a_python_without_a_hook_is_the_cause(tmp_path: Path) -> None:
    result = record(tmp_path, sys.executable, "-I", "-c", "print('done'); raise KeyError('height')")
    assert (result.error, result.exit_code) == ("ended with exit code 1: KeyError: 'height'", 1)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        ("MemoryError", "memory ran out"),
        ("numpy._core._exceptions._ArrayMemoryError: Unable to allocate 8.00 PiB", "Unable to allocate 8.00 PiB"),
    ],
)
def test_memory_that_runs_out_before_torch_is_imported_is_the_status(error: str, message: str) -> None:
    errors = f"Traceback (most recent call last):\n  File\n{error}\n"
    program = ProgramEnd(ProcessExit(0, 1, "itself", errors), 1, "kineto", Window(), errors=errors)
    assert program_outcomes(program, {}) == {0: {"status": "oom", "error": message}}


@pytest.mark.parametrize(("problem", "added"), [("E: a", ""), ("E: b", "; E: b")])
def test_a_recording_that_fails_as_the_program_does_is_not_named_again(problem: str, added: str) -> None:
    record = {"pid": 1, "ended": 1.0, "status": "failed", "error": "E: a", "problem": problem}
    program = ProgramEnd(ProcessExit(0, 1, "itself", ""), 1, "kineto", Window())
    assert program_outcomes(program, {0: record})[0]["error"] == f"E: a{added}"


def test_a_window_of_steps_in_a_program_without_steps_names_that_of_seconds() -> None:
    program = ProgramEnd(ProcessExit(0, 0, "itself", ""), 1, "kineto", Window(wait=5, active=10))
    outcome = program_outcomes(program, {0: {"pid": 1, "steps": 0, "ended": 1.0}})[0]
    assert outcome["error"].endswith("after 5 optimizer steps; where no optimizer steps, choose --after-s and --for-s")


def test_the_exception_is_the_one_that_ended_the_program() -> None:
    errors = "Traceback (most recent call last):\n  File\nKeyError: 1\n\nDuring handling of the above exception\n\n"
    errors += 'Traceback (most recent call last):\n  File "x"\n    f(\n      ^\npkg.Error: two\nlines\n'
    assert status.find_exception(errors) == "pkg.Error: two"
    assert status.find_exception("100%|####| 3/3\n") == ""


def test_a_program_ends_with_a_killed_collector_and_its_windows_are_kept(tmp_path: Path) -> None:
    script = tmp_path / "loop.py"
    script.write_text(LOOP.format(steps=5, each="pass", after="print(os.getpid(), flush=True); time.sleep(600)"))
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    command = [sys.executable, "-m", "tracelab", "collect", "run", "--out", str(tmp_path), "--run", "r"]
    command += ["--wait", "1", "--active", "2", "--", sys.executable, str(script)]
    environment = os.environ | {"TMPDIR": str(temporary)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as collector:
        assert collector.stdout is not None
        program = int(collector.stdout.readline())
        assert len(list(temporary.glob("tracelab-*"))) == 2  # the collector's and the program's
        collector.kill()
    folder = tmp_path / "r"
    wait_until(lambda: not (folder / ".running").exists())
    assert not is_running(program)
    content = json.loads((folder / "run.json").read_text())
    assert (content["status"], content["error"]) == ("failed", "tracelab collect was killed, which ends its program")
    assert (content["ranks"]["0"]["steps"], recorded_steps(Result(folder, "failed", None))) == (5, [1, 2])
    wait_until(lambda: not list(temporary.glob("*tracelab-*")))
    assert not list(folder.glob(".*"))


def test_what_is_left_by_a_node_that_crashes_is_kept_and_its_windows_are_shown_before(tmp_path: Path) -> None:
    script = tmp_path / "loop.py"
    script.write_text(LOOP.format(steps=8, each="pass", after="print(os.getpid(), flush=True); time.sleep(600)"))
    command = [sys.executable, "-m", "tracelab", "collect", "run", "--out", str(tmp_path), "--run", "r"]
    command += ["--wait", "1", "--active", "2", "--", sys.executable, str(script)]
    folder = tmp_path / "r"
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as collector:
        assert collector.stdout is not None
        assert collector.stderr is not None
        program = int(collector.stdout.readline())
        saved = f"tracelab: {folder}: saved rank0.pt.trace.json.gz, "
        assert any(line.startswith(saved) for line in collector.stderr)
        assert recorded_steps(Result(folder, "not_run", None)) == [1, 2]
        others = Path(f"/proc/{collector.pid}/task/{collector.pid}/children").read_text().split()
        collector.send_signal(signal.SIGSTOP)  # nothing is left to end the program or to finish the folder
        killed = (*map(int, others), collector.pid)
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not any(map(is_running, (program, *killed))))
    finished: list[str] = []
    wait_until(lambda: finished.extend(finish_killed_runs(find_locks([tmp_path]))) or finished)  # threads end last
    assert len(finished) == 1
    content = json.loads((folder / "run.json").read_text())
    rank = content["ranks"]["0"]
    assert (content["status"], rank["steps"], rank["recorded_steps"], rank["windows"]) == ("failed", 8, 2, 1)
    assert recorded_steps(Result(folder, "failed", None)) == [1, 2]
    assert not list(folder.glob(".*"))


def test_the_temporary_folder_of_a_killed_process_is_deleted_by_the_next_one(tmp_path: Path) -> None:
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    program = "import os, sys; from tracelab.collect.run_end import scratch_folder\n"
    program += "with scratch_folder() as folder: print(len(os.listdir(os.environ['TMPDIR'])), flush=True); "
    for end in ("os.kill(os.getpid(), 9)", "pass"):
        done = subprocess.run(
            [sys.executable, "-c", program + end], env=environment, capture_output=True, text=True, check=False
        )
        assert done.stdout == "1\n", done.stderr
    assert not list(tmp_path.iterdir())


def wait_until(is_reached: Callable[[], object]) -> None:
    until = time.monotonic() + 30
    while not is_reached():
        assert time.monotonic() < until
        time.sleep(0.05)


def run_tasks(folder: Path, *options: str) -> tuple[int, dict[str, Any]]:
    """Run two collectors as tasks of srun, and return the exit code and run.json."""
    collect = [sys.executable, "-m", "tracelab", "collect", "run", "--out", str(folder), "--run", "r", *options]
    done = subprocess.run([FAKES / "srun", "-n", "2", *collect], capture_output=True, text=True, check=False)
    assert (folder / "r" / "run.json").exists(), done.stderr
    assert not list((folder / "r").glob(".*"))
    return done.returncode, json.loads((folder / "r" / "run.json").read_text())


def test_collectors_that_srun_starts_write_one_run(tmp_path: Path) -> None:
    script = tmp_path / "loop.py"
    script.write_text(LOOP.format(steps=4, each="pass", after=""))
    code, content = run_tasks(tmp_path, "--wait", "1", "--active", "2", "--", sys.executable, str(script))
    assert (code, content["status"], content["world_size"]) == (0, "ok", 2)
    assert {rank: entry["steps"] for rank, entry in content["ranks"].items()} == {"0": 4, "1": 4}
    result = Result(tmp_path / "r", "ok", None)
    assert [recorded_steps(result, f"rank{rank}.pt.trace.json.gz") for rank in range(2)] == [[1, 2], [1, 2]]
    traces = [f"rank{rank}.pt.trace.json.gz" for rank in range(2)]
    assert content["expects"] == {"ranks": [0, 1], "files": [*traces, "steps.rank0.jsonl", "steps.rank1.jsonl"]}
    assert (tmp_path / "r" / "host_samples.0.jsonl").exists()


def test_a_task_of_srun_that_fails_is_the_status(tmp_path: Path) -> None:
    code, content = run_tasks(tmp_path, "--profiler", "none", "--", "sh", "-c", "exit $((4 * SLURM_PROCID))")
    assert (code, content["status"], content["error"]) == (4, "failed", "rank 1: ended with exit code 4")
    assert {rank: entry["status"] for rank, entry in content["ranks"].items()} == {"0": "ok", "1": "failed"}


@pytest.mark.parametrize(("signals", "code"), [(1, 3), (2, 128 + signal.SIGTERM)])
def test_ctrl_c_reaches_the_program_and_a_second_one_terminates_it(tmp_path: Path, signals: int, code: int) -> None:
    script = tmp_path / "script.py"
    saving = "print('saving', flush=True); time.sleep(0.2 if sys.argv[1] == '1' else 60); sys.exit(3)"
    script.write_text(
        "import sys, time\ntry:\n    print('begun', flush=True); time.sleep(60)\n"
        f"except KeyboardInterrupt:\n    {saving}"
    )
    command = [sys.executable, "-m", "tracelab", "collect", "run", "--profiler", "none", "--out", str(tmp_path)]
    command += ["--run", "r", "--sample-s", "0", "--", sys.executable, str(script), str(signals)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as collector:
        assert collector.stdout is not None
        for line in ("begun\n", "saving\n")[:signals]:
            assert collector.stdout.readline() == line
            collector.send_signal(signal.SIGINT)
        assert collector.stdout.read() == ("saving\n" if signals == 1 else "")
        assert collector.wait() == code
    content = json.loads((tmp_path / "r" / "run.json").read_text())
    assert (content["status"], content["error"]) == ("failed", "interrupted")


@pytest.mark.parametrize(
    ("record_entries", "lost"),
    [
        ({"windows": 0}, "; no window opened before it"),
        ({"windows": 1, "files": [{}]}, ""),
        ({"windows": 0, "recording": True}, "; its recording is lost, because a process saves it when Python exits"),
    ],
)
def test_an_interruption_names_what_was_not_recorded(record_entries: dict[str, Any], lost: str) -> None:
    end = ProcessExit(0, 130, "interrupted", "", "interrupted")
    process_record = {"pid": 1, "steps": 3} | record_entries
    outcome = program_outcomes(ProgramEnd(end, 1, "kineto", Window(wait=9)), {0: process_record})[0]
    assert (outcome["status"], outcome["error"]) == ("failed", f"interrupted{lost}")


@pytest.mark.parametrize(
    ("requested", "was_requested", "reason"),
    [
        (
            False,
            False,
            ", and no request came; request each recording by SIGUSR1 to tracelab collect run, or a",
        ),
        (True, False, ", before the window opened: "),
        (False, True, ", before the window opened: "),
    ],
)
def test_a_program_without_a_request_has_that_as_status(requested: bool, was_requested: bool, reason: str) -> None:
    program = ProgramEnd(
        ProcessExit(0, 0, "itself", ""), 1, "kineto", Window(on_demand=True), was_requested=was_requested
    )
    outcome = program_outcomes(program, {0: {"pid": 1, "steps": 3, "ended": 1.0, "requested": requested}})[0]
    assert outcome["status"] == "profiler_error"
    assert outcome["error"].startswith(f"the program ended after 3 optimizer steps{reason}")


def test_ctrl_c_while_the_watcher_of_the_collector_starts_is_ctrl_c(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watchers = []

    class InterruptedPopen(subprocess.Popen[bytes]):
        def __init__(self, command: list[str], **keywords: Any) -> None:
            super().__init__([*command[:4], "false"], **keywords)  # what it would execute after the collector's end
            watchers.append(self)
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(orphan, "subprocess", SimpleNamespace(Popen=InterruptedPopen, DEVNULL=subprocess.DEVNULL))
        result = record(tmp_path, "sleep", "60", profiler="none")
    assert (result.error, result.interrupted) == ("interrupted", signal.SIGINT)
    assert watchers[0].wait() == 0


def test_a_scheduler_that_ends_the_collector_is_named(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tracelab", "collect", "run", "--profiler", "none", "--out", str(tmp_path)]
    command += ["--run", "r", "--sample-s", "0", "--", "sh", "-c", "echo begun; exec sleep 60"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as collector:
        assert collector.stdout is not None
        assert collector.stdout.readline() == "begun\n"
        collector.terminate()
        assert collector.communicate()[1].endswith("/r: failed; interrupted by SIGTERM\n")
    assert collector.returncode == 128 + signal.SIGTERM


def test_output_that_cannot_be_written_is_the_status(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tracelab", "collect", "run", "--profiler", "none", "--out", str(tmp_path)]
    command += ["--sample-s", "0", "--run"]
    full = "the program's output cannot be written: No space left on device"
    for run, words in (("short", ["echo", "a"]), ("long", [sys.executable, "-c", "while True: print('a' * 99)"])):
        with Path("/dev/full").open("w") as output:
            whole = [*command, run, "--", *words]
            done = subprocess.run(whole, stdout=output, stderr=subprocess.PIPE, text=True, check=False)
        assert done.returncode == 1
        assert full in done.stderr
        content = json.loads((tmp_path / run / "run.json").read_text())
        assert (content["status"], content["error"].endswith(full)) == ("failed", True), content["error"]


IN_TERMINAL = """
import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGWINCH})  # a handler could wait for the end of input
print("terminals", sys.stdout.isatty(), sys.stderr.isatty(), *os.get_terminal_size(1), flush=True)
signal.sigwait({signal.SIGWINCH})
print("size", *os.get_terminal_size(2), flush=True)
print("read", input("name? "))
os.system("stty -echo")
sys.exit("Traceback (most recent call last):\\n  File\\n\\033[1;35mKeyError\\033[0m: 'height'")
"""
"""A program that needs a terminal, and reports an exception in color, as Python does from 3.13 on."""


def test_a_size_that_changes_while_the_program_starts_reaches_it() -> None:
    ours, theirs = os.openpty()
    signals: list[int] = []
    before = signal.signal(signal.SIGWINCH, lambda number, _: signals.append(number))
    try:
        with os.fdopen(theirs, "w") as shown, pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "stdout", shown)
            patch.setattr(sys, "stderr", None)
            terminals = open_terminals()
            assert terminals.stdout is not None
            termios.tcsetwinsize(ours, (30, 77))
            patch.setattr(os, "killpg", lambda group, number: signals.append(group))
            with follow_size(terminals, 12):
                assert termios.tcgetwinsize(terminals.stdout.theirs) == (30, 77)
            with follow_size(terminals, 34):  # the size is the same
                pass
            terminals.close_theirs()
            terminals.stdout.ours.close()
    finally:
        signal.signal(signal.SIGWINCH, before)
        os.close(ours)
    assert signals == [12]


def test_the_program_has_terminals_where_the_collector_has(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(IN_TERMINAL)
    command = [sys.executable, "-m", "tracelab", "collect", "run", "--profiler", "none", "--out", str(tmp_path)]
    command += ["--sample-s", "0", "--run", "r", "--", sys.executable, str(script)]
    child, terminal = pty.fork()
    if not child:
        termios.tcsetwinsize(0, (40, 100))
        os.execv(sys.executable, command)  # noqa: S606
    output = b""
    while True:
        try:
            block = os.read(terminal, 1 << 12)
        except OSError:  # its end
            break
        if b"100 40\r\n" in output + block and b"100 40\r\n" not in output:
            termios.tcsetwinsize(terminal, (30, 77))
        if b"name? " in output + block and b"name? " not in output:
            os.write(terminal, b"Ada\n")
        output += block
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    assert termios.tcgetattr(terminal)[3] & termios.ECHO
    folder = tmp_path / "r"
    for line in ("terminals True True 100 40", "size 77 30", "read Ada", "\033[1;35mKeyError\033[0m: 'height'"):
        assert f"{line}\r\n".encode() in output
    assert f"{folder}: failed; ended with exit code 1: KeyError: 'height'".encode() in output
    lines = (folder / "rank0.log").read_text().splitlines()
    assert lines[-3:] == ["Traceback (most recent call last):", "  File", "KeyError: 'height'"]
