"""Build the command lines of nsys and ncu from a capture and the options of the installed version."""

import math
import os
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tracelab.collect.nvidia.capture import Capture
from tracelab.collect.nvidia.tool import Tool

_LOCK = "nsight-compute-lock"

_MISSING: Mapping[str, str] = {
    "--cuda-graph-trace": "kernels inside CUDA graphs are recorded as whole graphs",
    "--capture-range-end": "recording ends with the program, not with the window",
}
"""Options that older versions of nsys lack, and the effect on the report."""


def profile_command(capture: Capture, argv: Sequence[str]) -> list[str]:
    """Return the command line that runs a program under the capture's tool."""
    return nsys_command(capture, argv) if capture.tool.name == "nsys" else ncu_command(capture, argv)


def nsys_command(capture: Capture, argv: Sequence[str]) -> list[str]:
    """Return the nsys command line; it records between cudaProfilerStart and cudaProfilerStop.

    No CPU sampling: it needs extra permissions, slows the program down, and no query uses it.
    """
    tool = capture.tool
    line = [tool.path, "profile", "--trace=cuda,nvtx,cudnn,cublas" if capture.cuda else "--trace=nvtx,osrt"]
    line += _supported(tool, "--sample=none", "--cpuctxsw=none", "--stats=false")
    if capture.cuda:
        # Tracing events on the device, the default of newer versions, can serialize streams.
        line += _supported(tool, "--cuda-graph-trace=node", "--cuda-event-trace=false")
        if capture.ranges:
            end = "stop" if capture.ranges == 1 else f"repeat:{capture.ranges}"
            line += _supported(tool, "--capture-range=cudaProfilerApi", f"--capture-range-end={end}")
    line += _limit_seconds(capture)
    return [*line, "--force-overwrite=true", f"--output={_escape_percent(capture.base)}", *argv]


def _limit_seconds(capture: Capture) -> list[str]:
    """Return the options that record some seconds of a program; without --kill=none nsys would then end it."""
    delay_s, duration_s = capture.limits.delay_s, capture.limits.duration_s
    line = [f"--delay={math.ceil(delay_s)}"] if delay_s else []
    if duration_s:
        line += [f"--duration={math.ceil(duration_s)}", "--kill=none", "--wait=all"]
    return line


def nsys_export_command(tool: Tool, report: Path, target: Path) -> list[str]:
    """Return the command line that exports a report to SQLite, with NVTX payloads decoded if supported."""
    line = [tool.path, "export", "--type=sqlite", "--force-overwrite=true"]
    line += _supported(tool, "--include-json=true", verb="export")
    return [*line, f"--output={target}", str(report)]


def ncu_command(capture: Capture, argv: Sequence[str]) -> list[str]:
    """Return the ncu command line; it excludes kernels that wait for other processes."""
    tool = capture.tool
    line = [tool.path, *_config_off(tool), "--target-processes", "all"]
    if capture.ranges:
        line += ["--profile-from-start", "off"]
    if capture.limits.launches:
        line += ["--launch-count", str(capture.limits.launches)]
    if capture.not_profiled:
        line += ["--kernel-name-base", "function", "--kernel-name", f"regex:{not_beginning(capture.not_profiled)}"]
    line += ["--clock-control", capture.clock_control, "--cache-control", "all"]
    return [
        *line,
        "--metrics",
        ",".join(capture.metrics),
        "--force-overwrite",
        "--export",
        _escape_percent(capture.base),
        *argv,
    ]


def ncu_import_command(tool: Tool, report: Path) -> list[str]:
    """Return the command line that exports a report to CSV: a row per launch, in base units, without user settings."""
    return [tool.path, *_config_off(tool), "--import", str(report), "--csv", "--page", "raw", "--print-units", "base"]


def unsupported_options(capture: Capture) -> list[str]:
    """Return a sentence for each requested feature that the tool does not support."""
    tool = capture.tool
    if tool.name == "ncu":
        return []
    if not capture.cuda:
        return ["without a GPU nsys cannot see the window: it records the whole program"]
    return [
        f"nsys {tool.version} has no {option}: {lack}" for option, lack in _MISSING.items() if not tool.knows(option)
    ]


def capture_record(capture: Capture) -> dict[str, Any]:
    """Return tool, command and options of a capture for run.json; paths keep their last part alone."""
    nameless = replace(capture, base=Path(capture.base.name), tool=replace(capture.tool, path=capture.tool.name))
    ncu = capture.tool.name == "ncu"
    return {
        "tool": capture.tool.name,
        "tool_version": capture.tool.version,
        "tool_command": profile_command(nameless, ["PROGRAM"]),
        "clock_control": capture.clock_control if ncu else None,
        "cache_control": "all" if ncu else None,
        "metrics": list(capture.metrics) if ncu else None,
        "not_profiled": list(capture.not_profiled) if ncu else None,
        "left_out": unsupported_options(capture),
    }


def extra_environment(capture: Capture, environ: Mapping[str, str]) -> dict[str, str]:
    """Return environment variables the tool needs in addition: TMPDIR where another user owns ncu's lock file.

    All users' ncu share one lock file in /tmp that only its owner may open; a folder of this user, the same for all
    ranks, replaces it.
    """
    if capture.tool.name != "ncu":
        return {}
    folder = Path(environ.get("TMPDIR") or tempfile.gettempdir())
    try:
        owner = (folder / _LOCK).stat().st_uid
    except OSError:
        return {}
    if owner == os.getuid():
        return {}
    own = folder / f"tracelab-ncu-{os.getuid()}"
    own.mkdir(mode=0o700, exist_ok=True)
    return {"TMPDIR": str(own)}


def not_beginning(prefixes: Collection[str]) -> str:
    """Return a regular expression of the names that start with none of these prefixes.

    It uses no lookahead: the regex dialect of ncu depends on its version.
    """
    return "^" + _not_beginning(sorted(prefixes))


def _not_beginning(prefixes: Sequence[str]) -> str:
    first = sorted({prefix[0] for prefix in prefixes})
    ways = [f"[^{''.join(first)}]", "$"]
    for letter in first:
        rests = [prefix[1:] for prefix in prefixes if prefix[0] == letter]
        if all(rests):
            ways.append(letter + _not_beginning(rests))
    return f"({'|'.join(ways)})"


def _supported(tool: Tool, *options: str, verb: str = "profile") -> list[str]:
    return [option for option in options if tool.knows(option.partition("=")[0], verb)]


def _config_off(tool: Tool) -> list[str]:
    return ["--config-file", "off"] if tool.knows("--config-file") else []


def _escape_percent(base: Path) -> str:
    """Escape % in a report name: both tools expand %p, %h and the like."""
    return str(base).replace("%", "%%")
