"""`tracelab.record`: a script records its own steps into a run folder."""

import contextlib
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from tracelab.collect import status
from tracelab.collect.disk_errors import WritePaths
from tracelab.collect.program.description import describe_program
from tracelab.collect.program.settings import ProgramSettings, name_runs
from tracelab.collect.program.windows import describe_window
from tracelab.collect.recording import hook
from tracelab.collect.recording.common_start import CommonStart, clear_requests
from tracelab.collect.recording.joint_end import finish_rank
from tracelab.collect.recording.os_exit import call_before_os_exit
from tracelab.collect.recording.process_record import REQUEST, open_window
from tracelab.collect.recording.profilers import KinetoOptions, ProgramKineto
from tracelab.collect.recording.ranks import Rank, find_rank
from tracelab.collect.recording.recorder import Recorder, describe_problem
from tracelab.collect.recording.step_times import StepTimes, steps_file
from tracelab.collect.recording.termination import STUCK, Termination
from tracelab.collect.recording.window import Window, validate_window
from tracelab.collect.run_end import scratch_folder
from tracelab.collect.run_folder import RUN_JSON, claim_run_folder, write_json
from tracelab.errors import TracelabError, UsageError
from tracelab.foreign_text import print_lines
from tracelab.run_names import check_run_name

_TERMINATED = {"status": "failed", "error": "ended by SIGTERM", "collateral": True, "terminated": True}
_TERMINATED_STUCK = _TERMINATED | {"error": f"killed: {STUCK}"}
_OPTION = re.compile(r"(?<!\S)--([a-z]+(?:-[a-z]+)*)")
"""An option of `tracelab collect run` in an error."""


class ScriptRecording:
    """The recording of a `with` block; under `tracelab collect run` that command records instead."""

    def __init__(self, run: str | None, out: Path, window: Window, options: KinetoOptions, *, force: bool) -> None:
        with _name_arguments():
            validate_window(window)
        if run is not None:
            check_run_name(run)
        self._settings = ProgramSettings(
            tuple(getattr(sys, "orig_argv", sys.argv)), ("kineto",), window, options, out=out, run=run, force=force
        )
        self._held = contextlib.ExitStack()
        self._recorder: Recorder | None = None
        self._is_entered = self._is_ending = False
        self._reported = 0
        """Traces that a line was printed about."""
        self.folder: Path | None = None
        """The run folder; None under `tracelab collect run`, which has its own."""

    def __enter__(self) -> "ScriptRecording":
        self._is_entered = True
        if hook.is_installed():
            return self
        import torch

        rank = find_rank()
        if rank.known and rank.world_size > 1 and not torch.distributed.is_initialized():
            raise UsageError("tracelab.record needs the process group of its ranks; call init_process_group before it")
        self._torch = torch
        self.folder = folder = self._open_folder(rank)
        self._rank, self._begun_s, self._pid = rank, time.monotonic(), os.getpid()
        scratch = self._held.enter_context(scratch_folder())
        self._paths = WritePaths(folder, scratch)
        self._profiler = ProgramKineto(torch, self._settings.kineto, find_rank, folder, scratch)
        times = StepTimes(lambda: steps_file(folder, folder.name, rank.rank))
        self._versions = hook.describe_versions(torch)
        recorder = Recorder(
            self._settings.window, self._profiler, times, on_change=self._show_windows, begins_with_step=True
        )
        self._recorder = recorder
        self._profiler.call_before_others(recorder.yield_profiler)
        if self._settings.window.on_demand:
            with contextlib.suppress(ValueError):  # not the main thread: only the file requests recordings
                before = signal.signal(signal.SIGUSR1, lambda _number, _frame: recorder.request())
                self._held.callback(signal.signal, signal.SIGUSR1, before)
        self._held.callback(call_before_os_exit(self._end_block))
        if threading.current_thread() is threading.main_thread():
            termination = Termination(
                lambda: self._end(_TERMINATED), is_busy=self._is_busy, give_up=lambda: self._end_rank(_TERMINATED_STUCK)
            )
            termination.install()
            self._held.callback(termination.remove)
        recorder.begin(folder / REQUEST, common_start=CommonStart(folder, 0, lambda: rank.world_size))
        return self

    def _end_block(self, code: int) -> None:
        """Save before `os._exit` ends the process within the block, unless a signal interrupted the profiler for it."""
        if self._recorder is not None and not self._recorder.is_busy:
            self.__exit__(SystemExit, SystemExit(code), None)

    def step(self) -> None:
        """End a training step."""
        if self._recorder is not None:
            self._recorder.step()
        else:
            self._require_block()

    def request(self) -> None:
        """Record the next window of this rank from its next step on, with `on_demand`."""
        if self._recorder is not None:
            self._recorder.request(alone=True)
        else:
            self._require_block()

    def _require_block(self) -> None:
        if not self._is_entered:
            raise UsageError("tracelab.record records a block alone; write `with tracelab.record(...) as r:` around it")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end({}, error)

    def _end(self, end: dict[str, Any], error: BaseException | None = None) -> None:
        """Save what was recorded, and write the outcome: `end` where a signal ends the process."""
        if self._recorder is None or self._is_ending or self._pid != os.getpid():  # the run folder is the parent's
            return
        self._is_ending = True
        with self._held:
            self._recorder.finish()
            self._end_rank(end, error)

    def _end_rank(self, end: dict[str, Any], error: BaseException | None = None) -> None:
        if self._recorder is None or self.folder is None:
            return
        outcome = self._describe_outcome(self._recorder, error)
        if end:
            lost = "its recording is lost" if self._recorder.is_recording else None
            outcome |= end | {"error": "; ".join(filter(None, (end["error"], outcome.get("error"), lost)))}
        result = finish_rank(self.folder, self._rank.rank, self._rank.world_size, outcome)
        if result is not None:
            _print_line(result.describe())
        if self._rank.rank == 0:
            clear_requests(self.folder)

    def _is_busy(self) -> bool:
        return self._is_ending or (self._recorder is not None and self._recorder.is_busy)

    def _show_windows(self) -> None:
        """Mark an open window, which a killed process loses, and print a line about those of rank 0 that are over.

        One that ends with the block has the line of that.
        """
        if self.folder is None or self._recorder is None:
            return
        mark = open_window(self.folder, self._rank.rank)
        with contextlib.suppress(OSError):
            if self._recorder.is_recording:
                mark.touch()
            else:
                mark.unlink(missing_ok=True)
        new = self._profiler.files[self._reported :]
        if new and not self._rank.rank and not self._is_ending:
            self._reported += len(new)
            _print_line(describe_window(self.folder, new))

    def _describe_outcome(self, recorder: Recorder, error: BaseException | None) -> dict[str, Any]:
        outcome: dict[str, Any] = {"status": "ok", "steps": recorder.steps, "windows": recorder.windows}
        outcome |= {"recorded_steps": recorder.recorded_steps, "recorded_ranges": recorder.recorded_ranges}
        outcome |= self._profiler.describe(recorder.note)
        outcome |= {"versions": self._versions, "seconds": round(time.monotonic() - self._begun_s, 3)}
        outcome |= {"at": time.time(), "uses_gpu": self._torch.cuda.is_initialized()}
        problem = recorder.problem or recorder.times.error
        if isinstance(error, KeyboardInterrupt):
            missing = "" if recorder.windows else "; no window opened before it"
            outcome |= {"status": "failed", "error": f"interrupted{missing}"}
        elif error is not None and not (isinstance(error, SystemExit) and not error.code):
            name, text = status.status_of_error(error, self._paths)
            outcome |= {"status": name, "error": status.hide_home(text)}
        elif isinstance(problem, OSError):
            name, text = status.status_of_error(problem, self._paths)
            outcome |= {"status": name, "error": status.hide_home(f"{text}{recorder.lost}")}
        elif problem is not None:
            outcome |= {"status": "profiler_error", "error": f"{describe_problem(problem)}{recorder.lost}"}
        elif not self._profiler.files and not self._settings.window.on_demand:
            steps = f"{recorder.steps} step{'s' * (recorder.steps != 1)}"
            window = self._settings.window.describe()
            text = f"the block ended after {steps}, before the window opened: {window}"
            outcome |= {"status": "profiler_error", "error": text}
        elif not self._profiler.files and not recorder.is_requested:
            outcome["note"] = "no request came, so nothing was recorded"
        return outcome

    def _open_folder(self, rank: Rank) -> Path:
        """Return the run folder, which rank 0 claims and names, with the time where no name is given.

        Its refusal is that of all ranks.
        """
        answer: list[Any] = [None, None]
        if rank.rank == 0:
            (name,) = name_runs(self._settings)
            folder = (self._settings.out.expanduser() / name).absolute()
            try:
                with _name_arguments():
                    claimed = claim_run_folder(folder, force=self._settings.force, report=_print_line)
                    self._held.enter_context(claimed)
                write_json(folder / RUN_JSON, describe_program(self._settings, "kineto", name))
            except (TracelabError, OSError) as error:
                answer[1] = error
            answer[0] = folder
        if rank.world_size > 1:
            self._torch.distributed.broadcast_object_list(answer)
        if answer[1] is not None:
            raise answer[1]
        opened: Path = answer[0]
        return opened


def _print_line(line: str) -> None:
    print_lines(f"tracelab: {line}", err=True)


@contextlib.contextmanager
def _name_arguments() -> Iterator[None]:
    """Name the arguments of `tracelab.record` in errors, in place of the options of the command."""
    try:
        yield
    except TracelabError as error:
        words = _OPTION.sub(lambda option: _argument(option[1]), str(error))
        raise type(error)(words) from error.__cause__


def _argument(option: str) -> str:
    return "force=True" if option == "force" else option.replace("-", "_")
