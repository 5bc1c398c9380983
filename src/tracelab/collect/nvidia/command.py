"""The command lines of nsys and ncu: pure functions of a capture, and of what the installed version knows."""

import os
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tracelab.collect.nvidia.capture import Capture
from tracelab.collect.nvidia.tool import Tool

_LOCK = "nsight-compute-lock"

_SINCE: Mapping[str, str] = {
    "--cuda-graph-trace": "kernels inside CUDA graphs are recorded as whole graphs",
    "--capture-range-end": "recording ends with the program, not with the window",
}
"""Options that earlier versions of nsys lack, and what a report lacks without them."""


def profile_command(capture: Capture, argv: Sequence[str]) -> list[str]:
    """The command line that runs a program under the capture's tool."""
    return nsys_command(capture, argv) if capture.tool.name == "nsys" else ncu_command(capture, argv)


def nsys_command(capture: Capture, argv: Sequence[str]) -> list[str]:
    """Nsight Systems around a program; the window is what lies between cudaProfilerStart and cudaProfilerStop.

    No sampling: it needs permissions of its own, slows the program down, and no question asks for it.
    """
    tool = capture.tool
    line = [tool.path, "profile", "--trace=cuda,nvtx,cudnn,cublas" if capture.cuda else "--trace=nvtx,osrt"]
    line += _known(tool, "--sample=none", "--cpuctxsw=none", "--stats=false")
    if capture.cuda:
        # Events that are traced on the device, as newer versions do by default, can make streams wait for each other.
        line += _known(tool, "--cuda-graph-trace=node", "--cuda-event-trace=false")
        if capture.ranges:
            end = "stop" if capture.ranges == 1 else f"repeat:{capture.ranges}"
            line += _known(tool, "--capture-range=cudaProfilerApi", f"--capture-range-end={end}")
    return [*line, "--force-overwrite=true", f"--output={_escaped(capture.base)}", *argv]


def nsys_export_command(tool: Tool, report: Path, target: Path) -> list[str]:
    """A report as SQLite, with the payloads of NVTX decoded where this version can."""
    line = [tool.path, "export", "--type=sqlite", "--force-overwrite=true"]
    line += _known(tool, "--include-json=true", verb="export")
    return [*line, f"--output={target}", str(report)]


def ncu_command(capture: Capture, argv: Sequence[str]) -> list[str]:
    """Nsight Compute around a program and its children, but for kernels that wait for other processes."""
    tool = capture.tool
    line = [tool.path, *_config_off(tool), "--target-processes", "all"]
    if capture.ranges:
        line += ["--profile-from-start", "off"]
    if capture.not_profiled:
        line += ["--kernel-name-base", "function", "--kernel-name", f"regex:{not_beginning(capture.not_profiled)}"]
    line += ["--clock-control", capture.clock_control, "--cache-control", "all"]
    return [
        *line,
        "--metrics",
        ",".join(capture.metrics),
        "--force-overwrite",
        "--export",
        _escaped(capture.base),
        *argv,
    ]


def ncu_import_command(tool: Tool, report: Path) -> list[str]:
    """A report as CSV, a row a launch, every value in its base unit, whatever the user's own settings are."""
    line = [tool.path, *_config_off(tool), "--import", str(report), "--csv", "--page", "raw", "--print-units", "base"]
    if tool.knows("--print-metric-name"):
        line += ["--print-metric-name", "name"]
    return line


def unsupported_options(capture: Capture) -> list[str]:
    """What was asked for and cannot be, as sentences."""
    tool = capture.tool
    if tool.name == "ncu":
        return []
    if not capture.cuda:
        return ["without a GPU nothing tells nsys of the window: the whole program is recorded"]
    return [f"nsys {tool.version} has no {option}: {lack}" for option, lack in _SINCE.items() if not tool.knows(option)]


def capture_record(capture: Capture) -> dict[str, Any]:
    """What was used, for run.json; no path in it but the files' own names."""
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
    """What a process needs besides. All users' ncu share one lock file, which only its owner may open in /tmp.

    So where it is another's, ncu gets a folder for temporary files of this user, the same for all ranks.
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
    """A regular expression of the names that begin with none of these.

    It looks nowhere ahead, for which dialect ncu takes depends on its version.
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


def _known(tool: Tool, *options: str, verb: str = "profile") -> list[str]:
    return [option for option in options if tool.knows(option.partition("=")[0], verb)]


def _config_off(tool: Tool) -> list[str]:
    return ["--config-file", "off"] if tool.knows("--config-file") else []


def _escaped(base: Path) -> str:
    """Both tools replace %p, %h and the like in the names of reports."""
    return str(base).replace("%", "%%")
