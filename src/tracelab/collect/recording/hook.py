"""Install the recording in a process of the program that has just imported torch."""

import atexit
import contextlib
import json
import multiprocessing.util
import os
import shutil
import signal
import socket
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from tracelab import temp_folders
from tracelab.collect import status
from tracelab.collect.disk_errors import WritePaths, describe_disk_error
from tracelab.collect.process.launch import SAVING
from tracelab.collect.recording.common_start import CommonStart
from tracelab.collect.recording.os_exit import call_before_os_exit
from tracelab.collect.recording.process_record import REQUEST, ProcessRecord, create_process_folder
from tracelab.collect.recording.profilers import KinetoOptions, ProgramKineto, ProgramNvtx, ProgramWithoutProfiler
from tracelab.collect.recording.ranks import Rank, find_rank
from tracelab.collect.recording.recorder import ProgramProfiler, Recorder, describe_problem
from tracelab.collect.recording.shared_steps import SharedStepTimes, open_memory
from tracelab.collect.recording.step_times import steps_file
from tracelab.collect.recording.termination import STUCK, Termination
from tracelab.collect.recording.window import Window

_LAUNCHERS = (
    *("torchrun", "accelerate", "deepspeed", "torch.distributed.run", "torch.distributed.launch"),
    *("accelerate.commands.launch", "deepspeed.launcher.runner"),
)
"""Programs and modules that import torch and train in other processes."""
_OPTIONS_WITH_VALUE = ("-W", "-X")
_recordings: list["ProgramRecording"] = []
"""The recording of this process, once it has one."""
_handles: list[Any] = []
"""Handles that remove the hooks in optimizers; none where this process is not recorded."""


def is_installed() -> bool:
    """Return whether this process is recorded by `tracelab collect run`."""
    return bool(_handles)


def install(task_file: str, torch: Any, started: float | None = None) -> None:  # noqa: ANN401  torch carries no types here
    """Record this process, which started at a Unix time, as the task requests.

    A process of `multiprocessing`, and one that is forked, is recorded only once an optimizer steps in it.
    """
    program = find_program(getattr(sys, "orig_argv", sys.argv))
    if program in _LAUNCHERS or Path(program).name in _LAUNCHERS:
        return
    task = json.loads(Path(task_file).read_text("utf-8"))
    task |= {"processes": str(Path(task_file).parent), "started": started or time.time()}
    os.register_at_fork(after_in_child=lambda: _install_in_child(task, torch))
    if program.startswith("from multiprocessing."):
        _install_at_first_step(task, torch)
    else:
        ProgramRecording(task, torch).begin()


def find_program(words: Sequence[str]) -> str:
    """Return the script, module or code that Python runs, by its command line; empty where it reads standard input."""
    rest = iter(words[1:])
    for word in rest:
        if word in ("-c", "-m"):
            return next(rest, "")
        if word in _OPTIONS_WITH_VALUE:
            next(rest, None)
        elif not word.startswith("-"):
            return word
    return ""


def _install_in_child(task: dict[str, Any], torch: Any) -> None:  # noqa: ANN401
    """Leave the recording of the parent to it, and wait for a step of this process."""
    while _recordings:
        _recordings.pop().leave_to_parent()
    while _handles:
        _handles.pop().remove()
    _install_at_first_step(task | {"started": time.time()}, torch)


def _install_at_first_step(task: dict[str, Any], torch: Any) -> None:  # noqa: ANN401
    """Wait for a step: data loading processes never take one."""

    def on_first_step(optimizer: Any, _arguments: Any, _keywords: Any) -> None:  # noqa: ANN401
        _handles.pop().remove()
        recording = ProgramRecording(task, torch)
        recording.begin()
        recording.on_optimizer_step(optimizer, (), {})

    _handles.append(_after_each_optimizer_step(on_first_step))


class ProgramRecording:
    """The recording of this process, and its record."""

    def __init__(self, task: dict[str, Any], torch: Any) -> None:  # noqa: ANN401
        self._task = task
        self._torch = torch
        self._pid = os.getpid()
        self._run_folder = Path(task["folder"])
        self.folder = create_process_folder(Path(task["processes"]))
        self._scratch = temp_folders.new_path("recording")
        self._scratch.mkdir(parents=True)
        self._rank = Rank()
        self._profiler = self._build_profiler()
        memory = open_memory(Path(task["scratch"]), self.folder.name)
        times = SharedStepTimes(lambda: steps_file(self.folder, task["run"], self.rank().rank), memory)
        self.recorder = Recorder(Window(**task["window"]), self._profiler, times, on_change=self._write_record)
        self._record = ProcessRecord(self.folder)
        self._optimizer: weakref.ref[Any] | None = None
        self._ended = False
        self._is_ending = False
        self._termination = Termination(
            lambda: self._end(terminated=True),
            is_busy=lambda: self.recorder.is_busy or self._is_ending,
            give_up=self._end_unsaved,
        )

    def begin(self) -> None:
        """Write the record, install the hooks, and begin."""
        torch = self._torch
        _recordings.append(self)
        self._record.update(
            pid=self._pid,
            host=socket.gethostname(),
            program=Path(sys.argv[0] if sys.argv else "").name,
            started=self._task["started"],
            versions=describe_versions(torch),
        )
        _handles.append(_after_each_optimizer_step(self.on_optimizer_step))
        atexit.register(self._end)
        call_before_os_exit(lambda _: None if self.recorder.is_busy else self._end())
        if multiprocessing.parent_process() is not None:  # a forked process of multiprocessing skips atexit
            multiprocessing.util.Finalize(None, lambda: self._end(error=_error_in_flight()), exitpriority=0)
        if threading.current_thread() is threading.main_thread():
            self._handle_signals()
        if isinstance(self._profiler, ProgramKineto):
            self._profiler.call_before_others(self.recorder.yield_profiler)
        started: float = self._task["started"]
        common_start = CommonStart(self._run_folder, started, lambda: self.rank().world_size)
        self.recorder.begin(self._run_folder / REQUEST, started, common_start)
        self._write_record()

    def rank(self) -> Rank:
        """Return the rank of this process; what was once known stays, also where the process group has ended."""
        current = find_rank()
        if current.known or not self._rank.known:
            self._rank = current
        return self._rank

    def on_optimizer_step(self, optimizer: Any, _arguments: Any, _keywords: Any) -> None:  # noqa: ANN401
        """Count a step of the first optimizer that steps; others, as of a second network, belong to the same step."""
        first = self._optimizer() if self._optimizer is not None else None
        if first is None:
            self._optimizer = weakref.ref(optimizer)
        elif first is not optimizer:
            return
        if not self.recorder.steps:
            self.rank()
        self.recorder.step()

    def _build_profiler(self) -> ProgramProfiler:
        match self._task["profiler"]:
            case "kineto":
                options = KinetoOptions(**self._task["kineto"])
                return _FlaggedKineto(self._torch, options, self.rank, self.folder, self._scratch)
            case "nsys" | "ncu":
                cuda = self._torch.version.cuda is not None and self._torch.cuda.is_available()
                return ProgramNvtx(self._torch, cuda=cuda, gated=self._task["gated"])
        return ProgramWithoutProfiler()

    def _write_record(self, **entries: Any) -> None:  # noqa: ANN401  JSON values
        rank, recorder = self.rank(), self.recorder
        known: dict[str, Any] = {
            "rank": rank.rank,
            "rank_known": rank.known,
            "world_size": rank.world_size,
            "local_rank": rank.local_rank,
            "steps": recorder.steps,
            "recorded_steps": None if isinstance(self._profiler, ProgramWithoutProfiler) else recorder.recorded_steps,
            "recorded_ranges": recorder.recorded_ranges,
            "windows": recorder.windows,
            "recording": recorder.is_recording,
            "requested": recorder.is_requested,
            "uses_gpu": self._torch.cuda.is_initialized(),
        }
        if recorder.note is not None:
            known["note"] = recorder.note
        if isinstance(self._profiler, ProgramKineto):
            known |= self._profiler.describe(recorder.note)
        if recorder.problem is not None:
            known["problem"] = f"{self._describe(recorder.problem)}{recorder.lost}"
        if recorder.times.error is not None:
            known["steps_problem"] = self._describe(recorder.times.error)
        self._record.update(**known | entries)

    def _describe(self, error: Exception) -> str:
        full = isinstance(error, OSError) and describe_disk_error(error, WritePaths(self._run_folder, self._scratch))
        return full or describe_problem(error)

    def _handle_signals(self) -> None:
        """Save on SIGTERM before the process ends, and record on SIGUSR1, where the program handles neither."""
        self._termination.install()
        if self.recorder.window.on_demand and signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL:
            signal.signal(signal.SIGUSR1, self._on_request)

    def _on_request(self, _number: int, _frame: FrameType | None) -> None:
        self.recorder.request()

    def _end_unsaved(self) -> None:
        lost = {"problem": f"its recording is lost: {STUCK}"} if self.recorder.is_recording else {}
        self._write_record(terminated=True, **lost)

    def _end(self, *, terminated: bool = False, error: BaseException | None = None) -> None:
        """Save what was recorded, and write how the process ends."""
        if self._ended or self._pid != os.getpid():
            return
        self._ended = self._is_ending = True
        self.recorder.finish()
        self._note_own_handler()
        entries: dict[str, Any] = {"ended": time.time(), "terminated": terminated}
        error = error or getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
        if isinstance(error, KeyboardInterrupt):
            entries["status"], entries["error"] = "failed", "interrupted"
        elif isinstance(error, BaseException) and not terminated:
            places = WritePaths(self._run_folder, self._scratch)
            entries["status"], entries["error"] = status.status_of_error(error, places)
        self._write_record(**entries)
        shutil.rmtree(self._scratch, ignore_errors=True)
        self._is_ending = False

    def _note_own_handler(self) -> None:
        """Note where nothing was recorded on demand, and SIGUSR1 to this process could not have requested it."""
        recorder = self.recorder
        if recorder.window.on_demand and not recorder.windows and signal.getsignal(signal.SIGUSR1) != self._on_request:
            recorder.note = recorder.note or (
                "the program handles SIGUSR1 itself; send it to tracelab collect run, or touch the file `record`"
            )

    def leave_to_parent(self) -> None:
        """Record nothing in this process, which was forked; its parent goes on."""
        with contextlib.suppress(ValueError):  # not the main thread of the parent
            if signal.getsignal(signal.SIGUSR1) == self._on_request:
                signal.signal(signal.SIGUSR1, signal.SIG_DFL)


class _FlaggedKineto(ProgramKineto):
    """Kineto that flags in the record's folder, too, that it is saving: the parent waits for that."""

    @contextlib.contextmanager
    def _saving(self) -> Any:  # noqa: ANN401
        flag = self._folder / SAVING
        with contextlib.suppress(OSError):
            flag.touch()
        try:
            yield
        finally:
            flag.unlink(missing_ok=True)


def _error_in_flight() -> BaseException | None:
    """Return the exception that ends a process of `multiprocessing`; that of torch turns it into an exit code."""
    error = sys.exc_info()[1]
    return error.__context__ if isinstance(error, SystemExit) else error


def _after_each_optimizer_step(call: Callable[[Any, Any, Any], None]) -> Any:  # noqa: ANN401
    """Have torch call a function after each step of any optimizer; returns the handle that removes it."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    return register_optimizer_step_post_hook(call)


def describe_versions(torch: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return versions without touching a GPU."""
    return {
        "torch_version": str(torch.__version__),
        "cuda_version": torch.version.cuda,
        "python_version": sys.version.split()[0],
    }
