"""The settings of `collect run`, and how run.json shows the command."""

import os
import re
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tracelab.collect.kineto_flags import NEEDS_KINETO
from tracelab.collect.recording.profilers import KinetoOptions
from tracelab.collect.recording.window import Window, validate_window
from tracelab.collect.run_folder import timed_name
from tracelab.collect.settings import PROFILERS
from tracelab.errors import UsageError, suggest_name
from tracelab.run_names import check_run_name, legal_run_name

RECORDING = "TRACELAB_RECORDING"
"""Environment variable with the task of the recorded processes."""

_SECRET = re.compile(r"(token|secret|passw(or)?d|credential|api[-_]?key)", re.IGNORECASE)
_HIDDEN = "***"


@dataclass(frozen=True)
class ProgramSettings:
    """A command, and how to record it; several profilers record it one after another."""

    command: tuple[str, ...]
    profilers: tuple[str, ...] = ("kineto",)
    window: Window = field(default_factory=Window)
    kineto: KinetoOptions = field(default_factory=KinetoOptions)
    metrics: tuple[str, ...] = ()
    clock_control: str = "none"
    sample_s: float = 1.0
    timeout_s: float | None = None
    out: Path = Path("runs")
    run: str | None = None
    force: bool = False
    tag: dict[str, str] = field(default_factory=dict)

    @property
    def program(self) -> str:
        """The command as text, the same for every profiler, so that queries join the recordings of one program."""
        return " ".join(word if _HIDDEN in word else shlex.quote(word) for word in shown_words(self.command))

    @property
    def script(self) -> str | None:
        """The first word of the command that is an existing Python file."""
        return next((word for word in self.command if word.endswith(".py") and Path(word).is_file()), None)


def validate_program(settings: ProgramSettings) -> ProgramSettings:
    """Return valid settings; raises UsageError for an impossible request."""
    if RECORDING in os.environ:
        raise UsageError(
            "this process is recorded by another tracelab collect run, which would record nothing; use one of the two"
        )
    if not settings.command:
        raise UsageError("no command to run; append one: tracelab collect run -- python train.py")
    for profiler in settings.profilers:
        if profiler not in PROFILERS:
            raise UsageError(suggest_name("value of --profiler", profiler, PROFILERS))
    if len(set(settings.profilers)) < len(settings.profilers):
        raise UsageError("--profiler names one profiler twice; record again with another --run instead")
    if settings.run is not None:
        check_run_name(settings.run)
    _check_executable(settings.command[0], settings.script)
    _check_profilers(settings, validate_window(settings.window))
    return settings


def _check_profilers(settings: ProgramSettings, window: Window) -> None:
    """Refuse options that no chosen profiler has."""
    options = settings.kineto
    if "kineto" not in settings.profilers and options != KinetoOptions():
        raise UsageError(NEEDS_KINETO)
    if "ncu" not in settings.profilers and settings.metrics:
        raise UsageError("--metrics needs --profiler ncu")
    if settings.profilers == ("none",) and window != Window():
        raise UsageError("--profiler none records no window; remove the options of the window, or choose a profiler")
    if "ncu" in settings.profilers and not window.is_gated and (window.for_s or window.after_s):
        raise UsageError("ncu cannot record by seconds; choose --wait and --active, or no window")
    if "nsys" in settings.profilers and not window.is_gated and window.cycles > 1:
        raise UsageError("nsys records once by seconds; choose --wait and --active, or remove --cycles")


def _check_executable(program: str, script: str | None) -> None:
    if shutil.which(program) is not None:
        return
    if program == script:
        raise UsageError(f"{script} is a Python script and no program; run it as python {script}")
    raise UsageError(f"{program}: no such program on PATH, or not executable; check the command")


def name_runs(settings: ProgramSettings, token: str = "") -> list[str]:
    """Return the name of the run of each profiler: of several, the profiler's name ends it.

    A name that is not given ends in the token of a launch, which its tasks share, else in the time.
    """
    name = settings.run
    if name is None:
        start = Path(settings.script or settings.command[0]).stem
        out = settings.out.expanduser()
        name = legal_run_name(f"{start}-{token[:8]}") if token else timed_name(out, start)
    if len(settings.profilers) == 1:
        return [name]
    return [f"{name}-{profiler}" for profiler in settings.profilers]


def shown_words(command: Sequence[str]) -> list[str]:
    """Return the words of a command for run.json, which may be shared: without folders and without secrets."""
    words = [Path(command[0]).name]
    hide_next = False
    for word in command[1:]:
        name, equals, value = word.partition("=")
        if hide_next and not word.startswith("-"):
            words.append(_HIDDEN)
        elif equals and _SECRET.search(name):
            words.append(f"{name}={_HIDDEN}")
        elif equals:
            words.append(f"{name}={_last_part(value)}")
        else:
            words.append(_last_part(word))
        hide_next = word.startswith("-") and not equals and _SECRET.search(word) is not None
    return words


def _last_part(word: str) -> str:
    """Return the last part of a path; any other word as it is."""
    is_path = word.startswith(("/", "~", "./", "../")) and "\n" not in word and " " not in word
    return Path(word).name or word if is_path else word
