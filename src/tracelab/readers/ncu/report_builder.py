"""Collect a report while it is parsed: metrics, devices, messages of ncu, unreadable rows."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa

from tracelab.readers.diagnostics import DiagnosticCounts
from tracelab.readers.ncu.devices import DeviceAttributes
from tracelab.readers.ncu.metric_rows import Launch, Metric, MetricRows
from tracelab.readers.ncu.rule_results import AdviceList
from tracelab.readers.tool_messages import quote_message

_STATUS = re.compile(r"==(PROF|WARNING|ERROR|INFO)==\s*(.*)")
_CLOCK = re.compile(r"\b(?:ncu|nv-nsight-cu-cli)\b.*--clock-control[= ]+[\"']?(none|base|boost)\b")
_NO_KERNELS = "No kernels were profiled"
_NO_PERMISSION = "ERR_NVGPUCTRPERM"


@dataclass
class ReportBuilder:
    """State of reading one file."""

    put: Callable[[str, pa.Table], None]
    diagnostics: DiagnosticCounts = field(default_factory=DiagnosticCounts)
    devices: DeviceAttributes = field(default_factory=DeviceAttributes)
    clock_control: str | None = None
    version: str | None = None
    has_header: bool = False
    kept: int = 0
    skipped: int = 0
    line: int = 0
    """Number of the current line, from 1."""
    error: str = ""
    """First error of ncu."""

    def __post_init__(self) -> None:
        self.advised = AdviceList(self.diagnostics)
        self.rows = MetricRows(self.put, self.diagnostics, self._describe)

    def count_kept(self, rows: int = 1) -> None:
        """Count rows that were parsed."""
        self.kept += rows

    def skip_row(self) -> None:
        """Count a row that could not be parsed."""
        self.skipped += 1
        self.note_here("row_lost")

    def note_here(self, code: str) -> None:
        """Count an event; the sample is its line number, as a row may name hosts and programs."""
        self.diagnostics.note(code, f"line {self.line:,}")

    def note_command(self, line: str) -> None:
        """Read the clock setting from a command line of ncu; drop the rest of the line."""
        if match := _CLOCK.search(line):
            self.clock_control = match[1]

    def handle_stray(self, line: str) -> None:
        """Handle a line of no table: a message of ncu, or output of the program."""
        if not line.strip():
            return
        self.note_command(line)
        status = _STATUS.search(line)
        if status is None:
            self.note_here("stray_line")
        elif status[1] in ("ERROR", "WARNING"):
            self._note_message(status[1], status[2].strip())

    def _note_message(self, severity: str, message: str) -> None:
        text = quote_message("ncu", message)
        if _NO_PERMISSION in message:
            self.diagnostics.note("no_permission", text)
        elif _NO_KERNELS in message:
            self.diagnostics.note("no_kernels", text)
        else:
            self.diagnostics.note("tool_error" if severity == "ERROR" else "tool_warning", text)
        if severity == "ERROR" and not self.error:
            self.error = text

    def _describe(self, launch: Launch, metric: Metric, text: str) -> None:
        self.devices.note((launch.pid, launch.device), metric.written, text)
