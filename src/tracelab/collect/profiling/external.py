"""The profiler outside a rank's process: none for kineto, which runs inside it; nsys or ncu, which start it."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracelab.collect import nvidia
from tracelab.collect.process.launch import ProcessExit, python_command
from tracelab.collect.process.placement import Placement
from tracelab.collect.profiling.schedule import build_schedule

_WORKER = "tracelab.collect.training.worker"
_CAUSES = ("permission_denied", "profiler_error")
"""Statuses of a profiler that explain why the process it started failed."""


@dataclass(frozen=True)
class ExternalProfiler:
    """The profiler around the ranks of one run; `capture` is None without one."""

    capture: nvidia.Capture | None = None
    folder: Path = Path()
    all_ranks: bool = True

    def rank_capture(self, rank: int) -> nvidia.Capture | None:
        """Return the capture of a rank. ncu profiles rank 0 alone: it serializes kernels, and the others would wait."""
        if self.capture is None or (rank and not self.all_ranks):
            return None
        return self.capture.at(self.folder / f"rank{rank}")

    def command(self, rank: int, scratch: Path) -> list[str]:
        """Return the command line of one rank."""
        line, capture = python_command(_WORKER, str(scratch)), self.rank_capture(rank)
        return nvidia.profile_command(capture, line) if capture else line

    def environment(self) -> dict[str, str]:
        """Return the environment variables that the profiler needs in addition."""
        return nvidia.extra_environment(self.capture, os.environ) if self.capture else {}

    def capture_record(self) -> dict[str, Any]:
        """Return the profiler's version, command and options for run.json."""
        return nvidia.capture_record(self.capture) if self.capture else {}

    def export_reports(self, ended: ProcessExit, outcome: Mapping[str, Any]) -> dict[str, Any]:
        """Export the reports of a rank that ended, and return the entries that change in its outcome."""
        capture = self.rank_capture(ended.rank)
        if capture is None:
            return {}
        return capture_outcome(capture, ended, outcome)


def capture_outcome(capture: nvidia.Capture, ended: ProcessExit, outcome: Mapping[str, Any]) -> dict[str, Any]:
    """Export the reports of a capture that ended, and return the entries that change in the outcome of its process."""
    export = nvidia.export_reports(capture, os.environ)
    status, error = nvidia.capture_status(capture, ended.code, ended.output, export)
    files = [{"file": path.name, "exporter": capture.tool.name} for path in export.files]
    changes: dict[str, Any] = {"files": files, "kernels": export.kernels, "copies": export.copies}
    explained = status in _CAUSES and outcome["status"] == "failed" and "at" not in outcome
    if ended.why == "timeout" and not export.reports:  # the rank had ended, and its profiler had not
        status, error = "timeout", f"the time limit ended {capture.tool.name} before it wrote its report"
    if outcome["status"] == "ok" or explained:
        changes |= {"status": status, "error": error}
    return changes


def find_external_profiler(placement: Placement, folder: Path) -> ExternalProfiler:
    """Find nsys or ncu and check that it supports the settings; raises CaptureError where it does not."""
    settings = placement.settings
    if settings.profiler not in ("nsys", "ncu"):
        return ExternalProfiler()
    schedule = build_schedule(settings)
    capture = nvidia.prepare_capture(
        settings.profiler,
        folder.absolute() / "rank0",
        os.environ,
        cuda=settings.device == "cuda",
        ranges=0 if settings.window == "all" else schedule.files,
        metrics=settings.metrics,
        clock_control=settings.clock_control,
    )
    return ExternalProfiler(capture, folder.absolute(), all_ranks=settings.profiler == "nsys")
