"""A capture as it was prepared on this machine: the tool, and what it is asked for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tracelab.collect.nvidia import metrics as wanted
from tracelab.collect.nvidia.tool import CaptureError, Tool, find_tool, run_tool

NOT_PROFILED = ("nccl", "nvshmem")
"""Beginnings of names of kernels that wait for other processes: ncu runs one at a time, and would wait for ever."""


@dataclass(frozen=True)
class Capture:
    """What one process is captured with. `base` is the path of its files without their suffixes: runs/x/rank0."""

    tool: Tool
    base: Path
    cuda: bool = True
    """Whether kernels are expected; without a GPU nsys records ranges and system calls of the whole process."""
    ranges: int = 1
    """How often cudaProfilerStart opens the window; each time makes a file of its own."""
    clock_control: str = "none"
    metrics: tuple[str, ...] = ()
    not_profiled: tuple[str, ...] = NOT_PROFILED

    def at(self, base: Path) -> "Capture":
        """The same for another process."""
        return replace(self, base=base)


def prepare_capture(
    profiler: str,
    base: Path,
    environ: Mapping[str, str],
    *,
    cuda: bool = True,
    ranges: int = 1,
    metrics: Sequence[str] = (),
    clock_control: str = "none",
) -> Capture:
    """Find the tool and check all that is asked of it, before anything runs.

    Raises CaptureError where the tool is missing or fails, UsageError for a metric or clock control that it has not.
    """
    tool = find_tool(profiler, environ)
    if profiler == "nsys":
        return Capture(tool, base, cuda, ranges)
    if clock_control != "none" and not tool.offers("--clock-control", clock_control):
        raise CaptureError(
            f"ncu {tool.version} knows no --clock-control {clock_control}; use none or base, or a newer ncu"
        )
    said = run_tool([tool.path, "--query-metrics"], environ)
    known = wanted.parse_metric_list(said)
    if not known:
        why = next((line.removeprefix("==ERROR==").strip() for line in said.splitlines() if "==ERROR==" in line), "")
        raise CaptureError(f"ncu lists no metrics of a GPU on this machine: {why or 'it says nothing'}")
    own = wanted.check_metrics(metrics, known, tool.version)
    return Capture(tool, base, cuda, ranges, clock_control, wanted.merge_metrics(wanted.roofline_metrics(known), own))
