"""Captures with Nsight Systems (nsys) and Nsight Compute (ncu): command line, export and status of each report."""

from tracelab.collect.nvidia.capture import Capture, Limits, prepare_capture
from tracelab.collect.nvidia.capture_status import capture_status
from tracelab.collect.nvidia.command import (
    capture_record,
    extra_environment,
    ncu_command,
    nsys_command,
    profile_command,
)
from tracelab.collect.nvidia.export_report import Export, export_reports
from tracelab.collect.nvidia.tool import CaptureError, Tool, find_tool

__all__ = [
    "Capture",
    "CaptureError",
    "Export",
    "Limits",
    "Tool",
    "capture_record",
    "capture_status",
    "export_reports",
    "extra_environment",
    "find_tool",
    "ncu_command",
    "nsys_command",
    "prepare_capture",
    "profile_command",
]
