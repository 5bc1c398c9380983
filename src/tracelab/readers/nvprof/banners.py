"""nvprof's own lines between its tables: whose result follows, and what went wrong."""

import re
from dataclasses import replace

from tracelab.readers.diagnostics import DiagnosticCounts
from tracelab.readers.nvprof.summary_mapping import TableContext

MARK = re.compile(r'"?(?:==(\d{1,9})==|={8})[ \t]')
"""What nvprof's lines begin with: their process between equals signs, or none."""

_RESULTS = {  # what a heading says the next table is; those with a column of types need none
    "Profiling result:": "gpu_activities",
    "API calls:": "api_calls",
    "Metric result:": "metrics",
    "Event result:": "events",
    "Unified Memory profiling result:": "unified_memory",
    "NVTX result:": "gpu_activities",
    "Dependency Analysis:": "critical_path",
}
_OF_DEVICE = re.compile(r'\s*"*Device "+(.*\S)"+\s*')
_OF_KERNEL = re.compile(r"\s+Kernel:\s+(.*\S)\s*")
_OF_RANGE = re.compile(r'\s*Range "(.*)"\s*')
_TROUBLE: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("permission_denied", re.compile(r"ERR_NVGPUCTRPERM|not have permission", re.IGNORECASE)),
    ("failed", re.compile(r"Application (?:returned non-zero code -?\d+|received signal \d+)")),
    ("timeout", re.compile(r"Execution timeout")),
    ("no_kernels", re.compile(r"No (?:kernels|events/metrics) were profiled")),
    ("data_not_flushed", re.compile(r"Some profiling data are not recorded|Some kernel profiling data")),
    ("profiler_error", re.compile(r"Error:\s*(.*)")),
    ("profiler_warning", re.compile(r"Warning:\s*(.*)")),
)
_PATH = re.compile(r"\S*[/\\]\S*[/\\]\S*")
_STATUS = {
    "permission_denied": "permission_denied",
    "profiler_error": "profiler_error",
    "no_kernels": "no_kernels",
    "timeout": "timeout",
    "failed": "failed",
}
"""Status of the run by what was noticed; the first that was counts."""


def parse_heading(text: str, pid: int | None, where: TableContext) -> TableContext | None:
    """What holds for the tables behind this line, where the line says so."""
    stripped = text.strip(' \t,;"')
    if result := _RESULTS.get(stripped):
        scope = "" if stripped.startswith("NVTX") else None
        return TableContext(pid=where.pid if pid is None else pid, heading=result, scope=scope)
    if device := _OF_DEVICE.fullmatch(text):
        return replace(where, device=device[1], kernel=None)
    if kernel := _OF_KERNEL.fullmatch(text):
        return replace(where, kernel=kernel[1])
    if (within := _OF_RANGE.fullmatch(text)) and where.scope is not None:
        return replace(where, scope=within[1])
    return None


def note_problem(text: str, diagnostics: DiagnosticCounts) -> None:
    """Count what nvprof says that went wrong; paths in it are not kept."""
    for code, pattern in _TROUBLE:
        if found := pattern.search(text):
            diagnostics.note(code, _PATH.sub("…", found[found.lastindex or 0]))
            return


def run_status(diagnostics: DiagnosticCounts) -> str | None:
    """The run's status, where something went wrong."""
    return next((status for code, status in _STATUS.items() if diagnostics.counts[code]), None)
