"""End a program whose collector was killed, and finish its run folder with what was recorded until then.

A shell waits for the collector; only when that is gone does it start this module: `orphan PROCESSES TEMPORARY PID`.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tracelab.collect.folder_lock import LOCK
from tracelab.collect.killed_run import killed_outcomes
from tracelab.collect.process.launch import GRACE_S, SAVE_S, SAVING
from tracelab.collect.program.description import describe_end
from tracelab.collect.program.outcomes import choose_records, collect_files
from tracelab.collect.program.process import recorded_pids
from tracelab.collect.program.tasks import send_outcomes
from tracelab.collect.recording.common_start import clear_requests
from tracelab.collect.recording.process_record import PROCESSES, is_running, read_records
from tracelab.collect.run_end import finish_run
from tracelab.collect.run_folder import KILLED, read_run_json

_WAIT = 'read _ || exec "$@"'
"""Shell program that waits for a line, and runs its arguments where the input ends without one."""
_PACKAGES = Path(__file__).parents[3]
_ERROR = "tracelab collect was killed, which ends its program"
_POLL_S = 0.1


@contextlib.contextmanager
def end_with_collector(program: int, processes: Path, temporary: Path) -> Iterator[None]:
    """End the program, a process group, if this process is killed within the block."""
    theirs, ours = os.pipe()
    words = [sys.executable, "-m", __spec__.name, str(processes), str(temporary), str(program)]
    paths = os.pathsep.join(filter(None, (str(_PACKAGES), os.environ.get("PYTHONPATH"))))
    with os.fdopen(ours, "wb", buffering=0) as line:
        try:
            watcher = subprocess.Popen(
                ["sh", "-c", _WAIT, "sh", *words],
                env={**os.environ, "PYTHONPATH": paths},
                stdin=theirs,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # out of reach of what kills this process and its session
                close_fds=False,  # holds the lock of the run folder until it has finished that
            )
        finally:
            os.close(theirs)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                line.write(b"\n")
            watcher.wait()


def end_program(program: int, processes: Path) -> None:
    """Terminate a process group and the recorded processes, wait for them to save, and kill the rest."""

    def running() -> list[int]:
        return [pid for pid in {program, *recorded_pids(processes)} if is_running(pid)]

    _signal_all(program, running(), signal.SIGTERM)
    begun = time.monotonic()
    while running():
        saves = any(processes.glob(f"*/{SAVING}"))
        if time.monotonic() - begun > (SAVE_S if saves else GRACE_S):
            break
        time.sleep(_POLL_S)
    _signal_all(program, running(), signal.SIGKILL)


def finish_folder(processes: Path) -> None:
    """Collect what the ranks have saved, and write the final run.json, or send the outcome to the first task."""
    folder = processes.parent
    description = read_run_json(folder)
    if description is not None and description.get("status") == "not_run":
        chosen = choose_records(read_records(processes))
        files = collect_files(folder, processes, chosen)
        failed = {"status": "failed", "error": _ERROR}
        outcomes = killed_outcomes(chosen, _ERROR)
        facts = describe_end(chosen, files)
        if processes.name == PROCESSES:
            finish_run(folder, description | facts | KILLED, outcomes or {0: failed}, None)
        else:
            task = int(processes.suffix.removeprefix("."))
            send_outcomes(task, folder, outcomes or {task: failed}, facts)
    shutil.rmtree(processes, ignore_errors=True)
    if processes.name == PROCESSES:
        clear_requests(folder)
        (folder / LOCK).unlink(missing_ok=True)


def _signal_all(group: int, pids: list[int], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.getpgid(pid) != group:
                os.kill(pid, number)


if __name__ == "__main__":
    _processes, _temporary, _program = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    end_program(_program, _processes)
    finish_folder(_processes)
    shutil.rmtree(_temporary, ignore_errors=True)
