"""Parse nvprof's own lines between its tables: headings and problems."""

import re
from dataclasses import replace

from tracelab.readers.diagnostics import DiagnosticCounts
from tracelab.readers.nvprof.summary_mapping import TableContext
from tracelab.readers.tool_messages import quote_message

MARK = re.compile(r'"?(?:==(\d{1,9})==|={8})[ \t]')
"""Prefix of nvprof's lines: the process between equals signs, or equals signs alone."""

_RESULTS = {  # the next table by its heading; tables with a column of types need none
    "Profiling result:": "gpu_activities",
    "API calls:": "api_calls",
    "Metric result:": "metrics",
    "Event result:": "events",
    "Unified Memory profiling result:": "unified_memory",
    "NVTX result:": "gpu_activities",
    "Dependency Analysis:": "critical_path",
}
_OF_DEVICE = re.compile(r'\s*+"*+Device "++(.*\S)"\s*')
_OF_KERNEL = re.compile(r"\s+Kernel:\s+(.*\S)\s*")
_OF_RANGE = re.compile(r'\s*Range "(.*)"\s*')
_COMMAND = re.compile(r"(?:command|Profiling application): *\S++(.*)")
_SHORTEST_PRIVATE_WORD = 8
_PROBLEMS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("permission_denied", re.compile(r"ERR_NVGPUCTRPERM|not have permission", re.IGNORECASE)),
    ("failed", re.compile(r"Application (?:returned non-zero code -?\d+|received signal \d+)")),
    ("timeout", re.compile(r"Execution timeout")),
    ("no_kernels", re.compile(r"No (?:kernels|events/metrics) were profiled")),
    ("data_not_flushed", re.compile(r"Some profiling data are not recorded|Some kernel profiling data")),
    ("profiler_error", re.compile(r"Error:\s*(.*)")),
    ("profiler_warning", re.compile(r"Warning:\s*(.*)")),
)
_STATUS = {
    "permission_denied": "permission_denied",
    "profiler_error": "profiler_error",
    "no_kernels": "no_kernels",
    "timeout": "timeout",
    "failed": "failed",
}
"""Status of the run by diagnostic code, the first match counts."""


def parse_heading(text: str, pid: int | None, context: TableContext) -> TableContext | None:
    """Return the context of the tables after this line, if the line is a heading."""
    stripped = text.strip(' \t,;"')
    if result := _RESULTS.get(stripped):
        scope = "" if stripped.startswith("NVTX") else None
        return TableContext(pid=context.pid if pid is None else pid, heading=result, scope=scope)
    if device := _OF_DEVICE.fullmatch(text):
        return replace(context, device=device[1], kernel=None)
    if kernel := _OF_KERNEL.fullmatch(text):
        return replace(context, kernel=kernel[1])
    if (nvtx_range := _OF_RANGE.fullmatch(text)) and context.scope is not None:
        return replace(context, scope=nvtx_range[1])
    return None


def find_private_words(text: str) -> set[str]:
    """Return the arguments of the command line in a line of nvprof; a short one may be part of any name."""
    command = _COMMAND.search(text)
    words = command[1].split() if command else []
    return {word for word in words if len(word) >= _SHORTEST_PRIVATE_WORD}


def note_problem(text: str, diagnostics: DiagnosticCounts) -> None:
    """Count a problem that nvprof reports; of an unknown message only the length."""
    for code, pattern in _PROBLEMS:
        if match := pattern.search(text):
            diagnostics.note(code, quote_message("nvprof", match[1]) if match.lastindex else match[0])
            return


def run_status(diagnostics: DiagnosticCounts) -> str | None:
    """Return the status of the run if there was a problem."""
    return next((status for code, status in _STATUS.items() if diagnostics.counts[code]), None)
