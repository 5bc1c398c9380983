"""Prepare a capture with nsys or ncu: find the tool and check the requested options."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tracelab.collect.machine import has_amd_gpus
from tracelab.collect.nvidia import metrics as metric_names
from tracelab.collect.nvidia.tool import CaptureError, Tool, find_tool, run_tool

NOT_PROFILED = ("nccl", "nvshmem")
"""Name prefixes of kernels that wait for other processes: ncu serializes kernels, so they would never end."""


@dataclass(frozen=True)
class Limits:
    """What the tool itself leaves out of a program that opens no window."""

    delay_s: float | None = None
    """Seconds before nsys records."""
    duration_s: float | None = None
    """Seconds that nsys records."""
    launches: int | None = None
    """Kernel launches that ncu measures."""


@dataclass(frozen=True)
class Capture:
    """The capture of one process. `base` is the path of its files without suffix: runs/x/rank0."""

    tool: Tool
    base: Path
    cuda: bool = True
    """Whether kernels are expected; without a GPU nsys records NVTX ranges and system calls of the whole process."""
    ranges: int = 1
    """How often cudaProfilerStart is called; each recording is one file."""
    clock_control: str = "none"
    metrics: tuple[str, ...] = ()
    not_profiled: tuple[str, ...] = NOT_PROFILED
    limits: Limits = Limits()

    def at(self, base: Path) -> "Capture":
        """Return the same capture for another process."""
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
    """Find the tool and check the requested options before anything runs.

    Raises CaptureError if the tool is missing or fails, UsageError for an unknown metric.
    """
    if cuda and has_amd_gpus(environ):
        raise CaptureError(
            f"{profiler} records NVIDIA GPUs, and those of this node are from AMD; use --profiler kineto"
        )
    tool = find_tool(profiler, environ)
    if profiler == "nsys":
        return Capture(tool, base, cuda, ranges)
    if clock_control != "none" and not tool.offers("--clock-control", clock_control):
        raise CaptureError(
            f"ncu {tool.version} does not support --clock-control {clock_control}; use none or base, or a newer ncu"
        )
    output = run_tool([tool.path, "--query-metrics"], environ)
    known = metric_names.parse_metric_list(output)
    if not known:
        why = next((line.removeprefix("==ERROR==").strip() for line in output.splitlines() if "==ERROR==" in line), "")
        raise CaptureError(f"ncu lists no metrics of a GPU on this machine: {why or 'check the driver and nvidia-smi'}")
    own = metric_names.check_metrics(metrics, known, tool.version)
    return Capture(
        tool, base, cuda, ranges, clock_control, metric_names.merge_metrics(metric_names.roofline_metrics(known), own)
    )
