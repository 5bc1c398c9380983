"""What a capture was made with, as run.json tells it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from tracelab.collect.nvidia.capture import Capture
from tracelab.collect.nvidia.command import command, left_out


def record(capture: Capture) -> dict[str, Any]:
    """What was used, for run.json; no path in it but the files' own names."""
    nameless = replace(capture, base=Path(capture.base.name), tool=replace(capture.tool, path=capture.tool.name))
    ncu = capture.tool.name == "ncu"
    return {
        "tool": capture.tool.name,
        "tool_version": capture.tool.version,
        "tool_command": command(nameless, ["PROGRAM"]),
        "clock_control": capture.clock_control if ncu else None,
        "cache_control": "all" if ncu else None,
        "metrics": list(capture.metrics) if ncu else None,
        "not_profiled": list(capture.not_profiled) if ncu else None,
        "left_out": left_out(capture),
    }
