"""`collect run`: start a program under each profiler in turn, supervise it, and write its run folders."""

import contextlib
import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tracelab import temp_folders
from tracelab.collect import disk_errors, nvidia, status
from tracelab.collect.folder_lock import lock_folder
from tracelab.collect.machine import Sampler, list_gpus
from tracelab.collect.process.launch import (
    END_SIGNALS,
    Interrupted,
    ProcessExit,
    count_oom_kills,
    defer_signals,
    raise_on_signals,
    read_tail,
    shut_down,
    supervise,
)
from tracelab.collect.process.launcher_env import Job, read_launcher_env
from tracelab.collect.profiling.external import capture_outcome
from tracelab.collect.program.description import describe_end, describe_program
from tracelab.collect.program.orphan import end_with_collector
from tracelab.collect.program.outcomes import ProgramEnd, choose_records, collect_files, program_outcomes
from tracelab.collect.program.process import ProgramWorker, program_environment, start_program
from tracelab.collect.program.settings import ProgramSettings, name_runs, validate_program
from tracelab.collect.program.signals import PASSED_ON, handle_signals
from tracelab.collect.program.tasks import Task, gather_outcomes, meet, send_outcomes
from tracelab.collect.program.terminal import follow_size, restore_input
from tracelab.collect.program.windows import show_windows
from tracelab.collect.recording.common_start import clear_requests
from tracelab.collect.recording.process_record import REQUEST, TASK, read_records
from tracelab.collect.recording.shared_steps import complete_records
from tracelab.collect.run_end import Result, finish_run, keep_log, scratch_folder
from tracelab.collect.run_folder import claim_run_folder
from tracelab.foreign_text import escape_controls

_WHOLE = {"wait": 1, "active": 1 << 40}
"""Window of the annotations where nsys or ncu chooses what to record: every step that has a beginning."""
_REPORT_NAME = "program"
"""Name of the reports of nsys and ncu, which hold all processes of the program."""
_MOST_RANGES = 1000
"""Recordings on demand that nsys expects at most."""
NCU_LAUNCHES = 1000
"""Kernel launches that ncu measures where no window is chosen: it replays each of them several times."""


_SIGNAL_EXIT = 128
"""A shell's exit code of a signal, less the number of the signal."""


@dataclass(frozen=True)
class _ProgramRan:
    """How a command ended: the outcomes of its ranks, the interrupting signal, facts for run.json, the exit code."""

    outcomes: dict[int, dict[str, Any]]
    interrupted: int | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    exit_code: int | None = None


def run_program(settings: ProgramSettings, report: Callable[[str], None] = lambda _: None) -> list[Result]:
    """Run the program once for each profiler; a signal ends the rest, too. Raises TracelabError if none can start."""
    validate_program(settings)
    if len(settings.profilers) > 1:  # one that is missing must not cost the recordings before it
        for profiler in settings.profilers:
            if profiler in ("nsys", "ncu"):
                nvidia.find_tool(profiler, os.environ)
    task = Task(read_launcher_env(os.environ) or Job())
    results: list[Result] = []
    with handle_signals(PASSED_ON, lambda _: None):  # while no program runs, they have no receiver
        for profiler, name in zip(settings.profilers, name_runs(settings, task.job.token), strict=True):
            results.append(_run_once(settings, profiler, settings.out.expanduser() / name, task, report))
            if results[-1].interrupted is not None:
                break
    return results


def _run_once(
    settings: ProgramSettings, profiler: str, folder: Path, task: Task, report: Callable[[str], None]
) -> Result:
    with contextlib.ExitStack() as held:
        if task.is_first:
            held.enter_context(claim_run_folder(folder, force=settings.force, report=report))
        description = describe_program(settings, profiler, folder.name)
        description["capture"]["window"] = _describe_window(settings, profiler)
        signals = held.enter_context(defer_signals(END_SIGNALS))
        description = meet(task, folder, description)
        try:
            capture = _prepare_capture(settings, profiler, folder, task)
        except nvidia.CaptureError as error:
            ran = _ProgramRan({task.job.rank: {"status": error.status, "error": str(error)}})
            return _finish(task, folder, description, ran, signals)
        description["capture"] |= nvidia.capture_record(capture) if capture else {}
        if task.is_first:
            program = escape_controls(description["program"])  # code behind -c has lines
            report(f"{folder}: {program} (process {os.getpid()}); {_plan(settings, profiler, folder)}")
        if settings.window.on_demand:
            held.enter_context(_pass_on_requests(folder / REQUEST))
        if task.is_first:
            held.callback(clear_requests, folder)
        ran = _run_command(settings, profiler, capture, folder, task, signals, report=report)
        return _finish(task, folder, description, ran, signals)


def _finish(
    task: Task, folder: Path, description: dict[str, Any], ran: _ProgramRan, signals: list[Interrupted]
) -> Result:
    """Write the final run.json as the first task; another one sends its outcomes there."""
    if task.is_first:
        outcomes, facts = gather_outcomes(task, folder, ran.outcomes, ran.facts, signals)
        result = finish_run(folder, description | facts, outcomes, ran.interrupted)
    else:
        send_outcomes(task.job.rank, folder, ran.outcomes, ran.facts)
        result = Result(folder, *status.run_status(ran.outcomes), ran.interrupted)
    return replace(result, exit_code=ran.exit_code)


def _plan(settings: ProgramSettings, profiler: str, folder: Path) -> str:
    """Return in words what is recorded."""
    window = _describe_window(settings, profiler)
    if window is None:
        return "no profiler"
    is_requested = settings.window.on_demand
    request = f"; request each by `touch {folder / REQUEST}`, or SIGUSR1 to this process" * is_requested
    return f"{profiler} {'measures' if profiler == 'ncu' else 'records'} {window}{request}"


def _describe_window(settings: ProgramSettings, profiler: str) -> str | None:
    """Return in words what the profiler records; None without a profiler."""
    window = settings.window
    if profiler == "none":
        return None
    if profiler == "kineto" or settings.window.is_gated:
        return window.describe()
    if profiler == "ncu":
        return f"the first {NCU_LAUNCHES} kernel launches"
    return window.describe() if window.for_s or window.after_s else "the whole program"


def _prepare_capture(settings: ProgramSettings, profiler: str, folder: Path, task: Task) -> nvidia.Capture | None:
    """Find nsys or ncu; raises CaptureError where it cannot record the program."""
    if profiler not in ("nsys", "ncu"):
        return None
    window = settings.window
    is_gated = window.is_gated
    capture = nvidia.prepare_capture(
        profiler,
        folder.absolute() / (_REPORT_NAME if task.world_size == 1 else f"rank{task.job.rank}"),
        os.environ,
        cuda=bool(list_gpus()),
        ranges=(window.files or _MOST_RANGES) if is_gated else 0,
        metrics=settings.metrics,
        clock_control=settings.clock_control,
    )
    if is_gated:
        return capture
    launches = NCU_LAUNCHES if profiler == "ncu" else None
    return replace(capture, limits=nvidia.Limits(window.after_s, window.for_s, launches))


def _run_command(
    settings: ProgramSettings,
    profiler: str,
    capture: nvidia.Capture | None,
    folder: Path,
    task: Task,
    signals: list[Interrupted],
    *,
    report: Callable[[str], None],
) -> _ProgramRan:
    """Run the command until it ends."""
    processes, own = task.processes(folder), task.job.rank
    killed_before, interrupted = count_oom_kills(), None
    begun_s = time.monotonic()
    with scratch_folder() as scratch, contextlib.ExitStack() as held:
        worker: ProgramWorker | None = None
        end = ProcessExit(0, 1, "itself", "")
        try:
            with (
                raise_on_signals(lambda number: worker is not None and worker.pass_on_hangup(number), END_SIGNALS),
                _sample_node(settings, folder, task),
                restore_input(),
                contextlib.ExitStack() as watched,
            ):
                _raise_first(signals)
                task_file = _write_task(settings, profiler, folder, processes, scratch)
                held.enter_context(lock_folder(processes))()
                # A signal between a start and its result would lose the program or its end.
                with defer_signals(END_SIGNALS) as late:
                    worker = _start(settings, capture, task_file, scratch)
                    watched.enter_context(handle_signals(_passed_on(settings), worker.pass_on))
                    watched.enter_context(follow_size(worker.terminals, worker.process.pid))
                    watched.enter_context(
                        end_with_collector(worker.process.pid, processes, temp_folders.process_folder())
                    )
                    watched.enter_context(show_windows(folder, processes, report))
                _raise_first(late)
                (end,) = supervise([worker], settings.timeout_s)
        except Interrupted as interruption:
            interrupted = interruption.number
            signals.append(interruption)
            if worker is None:
                return _ProgramRan(
                    {own: {"status": "failed", "error": f"{interruption.cause} before it started"}}, interrupted
                )
            shut_down([worker], interruption)
            code = worker.process.returncode
            end = ProcessExit(0, code, "interrupted", read_tail(worker.log), interruption.cause)
        except OSError as error:
            if worker is not None:
                shut_down([worker])
            places = disk_errors.WritePaths(folder, scratch)
            name, problem = status.status_of_error(error, places)
            return _ProgramRan({own: {"status": name, "error": problem}})
        seconds = round(time.monotonic() - begun_s, 3)
        chosen = choose_records(complete_records(read_records(processes), scratch, processes, folder.name))
        program = ProgramEnd(
            end,
            worker.process.pid,
            profiler,
            settings.window,
            killed_for_memory=count_oom_kills() > killed_before,
            was_requested=(folder / REQUEST).exists(),
            python_started=(processes / "python-started").exists(),
            hook_error=_read_text(processes / "hook-error"),
            errors=read_tail(worker.errors),
            output_error=worker.output_errors[0] if worker.output_errors else "",
        )
        outcomes = program_outcomes(program, chosen)
        if not chosen:  # the outcome of the command, which has no rank
            outcomes = {own: outcomes[min(outcomes)]}
        files = _collect_files(folder, processes, chosen, outcomes)
        for outcome in outcomes.values():
            outcome["seconds"] = seconds
        if capture is not None:
            first = min(outcomes)
            outcomes[first] |= capture_outcome(capture, end, outcomes[first])
        if any(outcome["status"] != "ok" for outcome in outcomes.values()):
            keep_log(scratch / "log", folder / f"rank{min(outcomes)}.log")
        shutil.rmtree(processes, ignore_errors=True)
    ended = end.why in ("itself", "interrupted")
    exit_code = None if not ended else end.code if end.code >= 0 else _SIGNAL_EXIT - end.code
    return _ProgramRan(outcomes, interrupted, describe_end(chosen, files), exit_code)


def _passed_on(settings: ProgramSettings) -> frozenset[int]:
    """Return the signals that the program gets; SIGUSR1 is a request where the recording is on demand."""
    return PASSED_ON - {signal.SIGUSR1} if settings.window.on_demand else PASSED_ON


def _raise_first(signals: list[Interrupted]) -> None:
    if signals:
        raise signals[0]


def _start(settings: ProgramSettings, capture: nvidia.Capture | None, task: Path, scratch: Path) -> ProgramWorker:
    environment = program_environment(task)
    if capture is None:
        return start_program(settings.command, environment, scratch, task.parent, is_wrapped=False)
    environment |= nvidia.extra_environment(capture, os.environ)
    command = nvidia.profile_command(capture, settings.command)
    return start_program(command, environment, scratch, task.parent, is_wrapped=True)


def _write_task(settings: ProgramSettings, profiler: str, folder: Path, processes: Path, scratch: Path) -> Path:
    """Write the task that the start-up hook reads in each process."""
    processes.mkdir()
    is_gated = profiler in ("nsys", "ncu") and settings.window.is_gated
    follows_hook = profiler in ("kineto", "none") or is_gated
    task = {
        "folder": str(folder.absolute()),
        "run": folder.name,
        "scratch": str(scratch),
        "profiler": profiler,
        "gated": is_gated,
        "window": settings.window.as_json() if follows_hook else _WHOLE,
        "kineto": asdict(settings.kineto),
    }
    path = processes / TASK
    path.write_text(json.dumps(task), "utf-8")
    return path


def _collect_files(
    folder: Path, processes: Path, chosen: dict[int, Any], outcomes: dict[int, dict[str, Any]]
) -> list[str]:
    try:
        return collect_files(folder, processes, chosen)
    except OSError as error:
        first = min(outcomes)
        name, problem = status.status_of_error(error, disk_errors.WritePaths(folder, folder))
        outcomes[first] |= {"status": name, "error": problem}
        return []


@contextlib.contextmanager
def _sample_node(settings: ProgramSettings, folder: Path, task: Task) -> Iterator[None]:
    """Sample GPUs and host of this node from this process, the first of the node."""
    if not settings.sample_s or task.job.local_rank:
        yield
        return
    with Sampler(folder / f"host_samples.{task.job.host_index}.jsonl", settings.sample_s, pid=os.getpid()):
        yield


@contextlib.contextmanager
def _pass_on_requests(request: Path) -> Iterator[None]:
    """Turn SIGUSR1 to this process into a request to all processes of the program."""

    def touch(_number: int) -> None:
        with contextlib.suppress(OSError):
            request.touch()

    with handle_signals((signal.SIGUSR1,), touch):
        yield


def _read_text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""
