"""However a recorded program ends, its status is true, and what was recorded before is kept."""

import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.collect.program_recordings import described, names, record, record_loop, recorded_steps, step_rows
from tests.needs import needs_torch
from tracelab.collect.recording.window import Window

pytestmark = [needs_torch, pytest.mark.usefixtures("_forked_programs")]


def test_a_program_that_ends_before_its_window_has_that_as_status(tmp_path: Path) -> None:
    result = record_loop(tmp_path, steps=3, window=Window(wait=10, active=2))
    assert (result.status, result.error) == (
        "profiler_error",
        "the program ended after 3 optimizer steps, before the window opened: "
        "2 optimizer steps after 10 optimizer steps",
    )


@pytest.mark.parametrize(
    ("each", "status", "error"),
    [
        ("if step == 3: raise MemoryError", "oom", "memory ran out"),
        ("if step == 3: torch.empty(1 << 46)", "oom", "DefaultCPUAllocator: can't allocate memory"),
        ("if step == 3: raise KeyError('height')", "failed", "KeyError: 'height'"),
    ],
)
def test_an_error_is_the_status_and_the_recording_before_it_is_kept(
    tmp_path: Path, each: str, status: str, error: str
) -> None:
    result = record_loop(tmp_path, each=each)
    assert result.status == status
    assert error in str(result.error)
    assert names(result)["aten::addmm"] == 4
    assert "Error" in (result.folder / "rank0.log").read_text()


def test_a_killed_program_keeps_the_windows_before(tmp_path: Path) -> None:
    each = "if step == 5: time.sleep(0.6); os.kill(os.getpid(), signal.SIGKILL)"
    result = record_loop(tmp_path, each=each, window=Window(wait=1, active=2))
    assert (result.status, result.error) == ("failed", "killed by SIGKILL")
    assert recorded_steps(result) == [1, 2]
    assert [row["step"] for row in step_rows(result)][:2] == [1, 2]


def test_a_terminated_program_of_one_process_blames_no_other_rank(tmp_path: Path) -> None:
    result = record_loop(tmp_path, each="if step == 4: os.kill(os.getpid(), signal.SIGTERM); time.sleep(9)")
    assert (result.status, result.error) == ("failed", "ended by SIGTERM")
    assert names(result)["aten::addmm"] == 5


def test_a_killed_program_whose_window_is_open_loses_it_and_the_message_names_that(tmp_path: Path) -> None:
    result = record_loop(tmp_path, each="if step == 3: os.kill(os.getpid(), signal.SIGKILL)")
    assert (result.status, result.error) == (
        "failed",
        "killed by SIGKILL; its recording is lost, because a process saves it when Python exits",
    )
    rank = described(result)["ranks"]["0"]
    assert (rank["steps"], rank["windows"], rank.get("note")) == (4, 0, None)
    assert [row["step"] for row in step_rows(result)] == [1, 2, 3]


def test_a_program_that_leaves_python_by_os_exit_keeps_its_recording(tmp_path: Path) -> None:
    result = record_loop(tmp_path, steps=4, after="os._exit(3)")
    assert (result.status, result.error) == ("failed", "ended with exit code 3")
    assert recorded_steps(result) == [1, 2, 3]
    assert [row["step"] for row in step_rows(result)] == [1, 2, 3]


def test_os_exit_does_not_wait_for_a_gpu_that_hangs(tmp_path: Path) -> None:
    hang = "from tracelab.collect.recording import hook, os_exit; os_exit._LIMIT_S = 0.2; "
    hang += "hook._recordings[0].recorder.finish = lambda: time.sleep(60); os._exit(5)"
    result = record_loop(tmp_path, steps=2, after=hang)
    assert result.error == (
        "ended with exit code 5; its recording is lost, because a process saves it when Python exits"
    )


def test_a_process_that_executes_another_program_loses_its_recording(tmp_path: Path) -> None:
    result = record_loop(tmp_path, after="os.execv('/bin/true', ['true'])")
    assert (result.status, result.error) == (
        "profiler_error",
        "the process ended by exec or a library's _exit, or was killed; its recording is lost, because a process saves "
        "it when Python exits",
    )


def test_the_time_limit_keeps_the_recording(tmp_path: Path) -> None:
    for limit_s in (3.0, 12.0, 60.0):  # a busy machine may take longer to begin
        result = record_loop(tmp_path, each="if step == 3: time.sleep(600)", timeout_s=limit_s, force=True)
        if (result.folder / "rank0.pt.trace.json.gz").exists() and names(result)["aten::addmm"] == 4:
            break
    assert (result.status, result.error) == ("timeout", "reached the time limit; what was recorded before it is kept")
    assert names(result)["aten::addmm"] == 4


def test_a_disk_that_fills_up_is_the_status_and_leaves_no_half_trace(tmp_path: Path) -> None:
    result = record_loop(tmp_path, each="resource.setrlimit(resource.RLIMIT_FSIZE, (16384, 16384))", steps=40)
    assert (result.status, result.error) == (
        "failed",
        "a file in the scratch folder (TMPDIR) reached the file size limit; raise it (ulimit -f) and run again; "
        "its recording is lost",
    )
    assert not list(result.folder.glob("*trace*"))
    rank = described(result)["ranks"]["0"]
    assert (rank["steps"], rank["recorded_steps"], rank["windows"]) == (40, 0, 0)


@pytest.mark.parametrize(
    ("command", "status", "error"),
    [
        (("sh", "-c", "echo no; exit 3"), "failed", "ended with exit code 3"),
        (("sh", "-c", "kill -9 $$"), "failed", "killed by SIGKILL"),
        (("sh", "-c", "echo 'CUDA out of memory. Tried to allocate 2 GiB' >&2; exit 1"), "oom", "CUDA out of memory."),
        (("sh", "-c", "echo 'write: No space left on device' >&2; exit 1"), "failed", "the disk is full or over quota"),
        (("true",), "profiler_error", "no Python in it read the start-up hook"),
    ],
)
def test_the_end_of_any_program_is_its_status(
    tmp_path: Path, command: tuple[str, ...], status: str, error: str
) -> None:
    result = record(tmp_path, *command)
    assert (result.status, error in str(result.error)) == (status, True), result.error
    assert "no" not in str(result.error).split(": ")


def test_a_python_that_ignores_the_environment_is_named(tmp_path: Path) -> None:
    result = record(tmp_path, sys.executable, "-I", "-c", "pass")
    assert (result.status, "runs Python with -I, -E or -S" in str(result.error)) == ("profiler_error", True)


def test_ctrl_c_keeps_the_recording(tmp_path: Path) -> None:
    main = threading.get_ident()

    def interrupt() -> None:
        while not list(tmp_path.glob("r/.processes/*/record.json")):
            time.sleep(0.02)
        time.sleep(0.5)
        signal.pthread_kill(main, signal.SIGINT)

    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    result = record_loop(tmp_path, each="if step == 3: time.sleep(600)")
    interrupter.join()
    assert (result.status, result.error, result.interrupted) == ("failed", "interrupted", signal.SIGINT)
    assert names(result)["aten::addmm"] == 4


def test_a_program_that_is_stuck_in_a_library_ends_at_the_time_limit_and_names_its_loss(tmp_path: Path) -> None:
    lock = "import ctypes; mutex = ctypes.create_string_buffer(64); lock = ctypes.CDLL(None).pthread_mutex_lock"
    begun = time.monotonic()
    result = record_loop(tmp_path, steps=2, after=f"{lock}; lock(mutex); lock(mutex)", timeout_s=2.0)
    assert (result.status, result.error) == (
        "timeout",
        "reached the time limit; nothing was recorded before it; "
        "its recording is lost: a library did not return after SIGTERM",
    )
    assert time.monotonic() - begun < 15
