"""Captures by Nsight Systems and Nsight Compute: the command lines, the export at once, and what became of it."""

from tracelab.collect.nvidia.capture import Capture, prepare
from tracelab.collect.nvidia.capture_status import verdict
from tracelab.collect.nvidia.command import command, environment, ncu_command, nsys_command
from tracelab.collect.nvidia.export_report import Export, after
from tracelab.collect.nvidia.record import record
from tracelab.collect.nvidia.tool import CaptureError, Tool

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
