"""What stands around the process of a rank: nothing for kineto, which is inside it; nsys or ncu, which start it."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracelab.collect import nvidia
from tracelab.collect.launch import End, python
from tracelab.collect.placement import Plan
from tracelab.collect.window import windows

_WORKER = "tracelab.collect.worker"
_CAUSES = ("permission_denied", "profiler_error")
"""What a profiler says of itself explains why the process failed."""


@dataclass(frozen=True)
class Around:
    """The profiler around the ranks of one run; `capture` is None where none stands there."""

    capture: nvidia.Capture | None = None
    folder: Path = Path()
    all_ranks: bool = True

    def of(self, rank: int) -> nvidia.Capture | None:
        """The capture of one rank. ncu watches rank 0 alone: it holds every kernel up, and the others would wait."""
        if self.capture is None or (rank and not self.all_ranks):
            return None
        return self.capture.at(self.folder / f"rank{rank}")

    def command(self, rank: int, scratch: Path) -> list[str]:
        """The command line of one rank."""
        line, capture = python(_WORKER, str(scratch)), self.of(rank)
        return nvidia.command(capture, line) if capture else line

    def environment(self) -> dict[str, str]:
        """What the profiler needs besides."""
        return nvidia.environment(self.capture, os.environ) if self.capture else {}

    def described(self) -> dict[str, Any]:
        """What it was made with, for run.json."""
        return nvidia.record(self.capture) if self.capture else {}

    def concluded(self, ended: End, outcome: Mapping[str, Any]) -> dict[str, Any]:
        """Export the reports of a rank at once, and say what changes in its outcome."""
        capture = self.of(ended.rank)
        if capture is None:
            return {}
        export = nvidia.after(capture, os.environ)
        verdict, error = nvidia.verdict(capture, ended.code, ended.output, export)
        files = [{"file": path.name, "exporter": capture.tool.name} for path in export.files]
        found: dict[str, Any] = {"files": files, "kernels": export.kernels, "copies": export.copies}
        explained = verdict in _CAUSES and outcome["status"] == "failed" and "at" not in outcome
        if ended.why == "timeout" and not export.reports:  # the rank was done, and its profiler was not
            verdict, error = "timeout", f"the time limit came before {capture.tool.name} had written its report"
        if outcome["status"] == "ok" or explained:
            found |= {"status": verdict, "error": error}
        return found


def around(decided: Plan, folder: Path) -> Around:
    """Find the profiler, and check all that is asked of it. Raises CaptureError where it cannot do it."""
    settings = decided.settings
    if settings.profiler not in ("nsys", "ncu"):
        return Around()
    kept = windows(settings)
    capture = nvidia.prepare(
        settings.profiler,
        folder.absolute() / "rank0",
        os.environ,
        cuda=settings.device == "cuda",
        ranges=0 if settings.window == "all" else kept.files,
        metrics=settings.metrics,
        clock_control=settings.clock_control,
    )
    return Around(capture, folder.absolute(), all_ranks=settings.profiler == "nsys")
