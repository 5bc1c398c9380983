"""Captures by Nsight Systems and Nsight Compute: the command lines, the export at once, and what became of it."""

from tracelab.collect.nvidia.after import Export, after
from tracelab.collect.nvidia.capture import Capture, prepare
from tracelab.collect.nvidia.command import command, environment, ncu_command, nsys_command
from tracelab.collect.nvidia.record import record
from tracelab.collect.nvidia.tool import CaptureError, Tool
from tracelab.collect.nvidia.verdict import verdict

__all__ = [
    "Capture",
    "CaptureError",
    "Export",
    "Tool",
    "after",
    "command",
    "environment",
    "ncu_command",
    "nsys_command",
    "prepare",
    "record",
    "verdict",
]
