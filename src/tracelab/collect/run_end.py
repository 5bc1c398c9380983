"""End a run: the output of ranks that failed, the final run.json, and the result."""

import contextlib
import shlex
import shutil
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracelab import temp_folders
from tracelab.collect import status
from tracelab.collect.folder_lock import undo_at_end
from tracelab.collect.recording.steps_apart import describe_steps_apart
from tracelab.collect.run_folder import KILLED, RUN_JSON, release_reserve, write_json
from tracelab.collect.run_json import final_run_json
from tracelab.errors import TracelabError
from tracelab.foreign_text import escape_lines, strip_control_sequences


@dataclass(frozen=True)
class Result:
    """The result of a run."""

    folder: Path
    status: str
    error: str | None
    interrupted: int | None = None
    """The signal that ended it, or None."""
    note: str | None = None
    """How it differs from what was requested, or None."""
    exit_code: int | None = None
    """Exit code of a program that ended by itself, as a shell has it; None of a workload."""
    recorded: str = ""
    """Steps, ranks and traces in words; empty where no rank is known."""
    next_command: str = ""
    """Command that reads the folder; empty where the run failed, and of all processes of a launcher but the first."""

    def describe(self) -> str:
        """Return in one line how the run ended, what it holds, and what to do next."""
        parts = [f"{self.folder}: {self.status}", self.error, self.recorded, self.note]
        parts.append(self.next_command and f"next: {self.next_command}")
        return "; ".join(filter(None, parts))


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """Create a temporary folder on this node and delete it, even if the disk is full.

    One that a killed process leaves is deleted by the next process that creates one.
    """
    folder = temp_folders.new_path("run")
    folder.mkdir(parents=True)
    with undo_at_end(lambda: shutil.rmtree(folder, ignore_errors=True)):
        yield folder


def keep_log(log: Path, target: Path) -> None:
    """Keep the output of a rank that failed."""
    if log.exists():
        with contextlib.suppress(OSError):
            output = strip_control_sequences(log.read_text("utf-8", "replace"))
            target.write_text(escape_lines(status.hide_home(output) or ""), "utf-8")


def finish_run(
    folder: Path, description: dict[str, Any], outcomes: dict[int, dict[str, Any]], interrupted: int | None
) -> Result:
    """Write the final run.json into the reserved disk space, and return the result."""
    release_reserve(folder)
    final_status, error = status.run_status(outcomes)
    if steps_apart := describe_steps_apart(outcomes):
        outcomes = {rank: _with_note(outcome, steps_apart) for rank, outcome in outcomes.items()}
    if interrupted is not None and final_status == "ok":
        interrupted = None  # the signal arrived after the run had ended
    if (
        final_status == "ok"
        and description["profiler"] == "kineto"
        and description["gpus"]
        and description["axes"].get("device") != "mps"  # PyTorch's profiler records no kernels of Apple GPUs
        and not status.has_gpu_work(outcomes)
    ):
        final_status, error = "no_kernels", "the trace has no GPU work; check that the window covers steps that ran"
    if interrupted not in (None, signal.SIGINT):
        description = description | KILLED
    final = final_run_json(description, outcomes) | {"status": final_status, "error": error}
    try:
        write_json(folder / RUN_JSON, final)
    except OSError as problem:
        raise TracelabError(f"{folder / RUN_JSON}: cannot be written: {problem.strerror}; the run is lost") from problem
    note = "; ".join(filter(None, (final.get("short_epoch"), _join_notes(outcomes)))) or None
    return Result(
        folder,
        final_status,
        error,
        interrupted,
        note,
        recorded=_count_recorded(outcomes, with_start=_begins_with_program(description["capture"])),
        next_command=f"tracelab ingest {shlex.quote(str(folder))}" if final_status == "ok" else "",
    )


def _with_note(outcome: Mapping[str, Any], note: str) -> dict[str, Any]:
    return {**outcome, "note": "; ".join(filter(None, (outcome.get("note"), note)))}


def _begins_with_program(capture: Mapping[str, Any]) -> bool:
    return not any(capture.get(name) for name in ("wait", "active", "after_s", "on_demand"))


def _count_recorded(outcomes: Mapping[int, Mapping[str, Any]], *, with_start: bool = False) -> str:
    """Return in words how many steps the ranks took and recorded, and how many traces they wrote.

    In a recording with the start of a program, nothing shows where its first step begins.
    """
    steps = _distinct(outcomes, "steps")
    if not steps:
        return ""
    traces = sum(len(outcome.get("files") or ()) for outcome in outcomes.values())
    recorded = _distinct(outcomes, "recorded_steps") if steps != [0] else []
    ranks = f" on {len(outcomes)} ranks" if len(outcomes) > 1 else ""
    written = f", {traces} trace{'s' * (traces != 1)}" if traces else ""
    of_them = f", {_span(recorded)} of them recorded" if recorded else ""
    if with_start and {1} == {
        each["recorded_ranges"][0][0] for each in outcomes.values() if each.get("recorded_ranges")
    }:
        of_them += " (not step 0, which begins with the program)"
    return f"{_span(steps)} step{'s' * (steps != [1])} taken{ranks}{of_them}{written}"


def _distinct(outcomes: Mapping[int, Mapping[str, Any]], name: str) -> list[int]:
    return sorted({outcome[name] for outcome in outcomes.values() if outcome.get(name) is not None})


def _span(numbers: list[int]) -> str:
    return f"{numbers[0]} to {numbers[-1]}" if len(numbers) > 1 else str(numbers[0])


def _join_notes(outcomes: Mapping[int, Mapping[str, Any]]) -> str | None:
    """Return the notes of the ranks, each with its ranks where others have none or another one."""
    ranks: dict[str, list[int]] = {}
    for rank, outcome in sorted(outcomes.items()):
        if outcome.get("note"):
            ranks.setdefault(str(outcome["note"]), []).append(rank)
    return (
        "; ".join(
            note if len(with_note) == len(outcomes) else f"rank {', '.join(map(str, with_note))}: {note}"
            for note, with_note in ranks.items()
        )
        or None
    )
