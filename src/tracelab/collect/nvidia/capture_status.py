"""Derive the status of a capture from the tool's output and the files it wrote."""

import re

from tracelab.collect.nvidia.capture import Capture
from tracelab.collect.nvidia.export_report import Export
from tracelab.collect.status import NOT_PERMITTED, PERMISSION_HINT

_ADVICE = (
    (
        r"driver resource was unavailable",
        "another tool uses the GPU's counters, most often DCGM; run `dcgmi profile --pause` first, --resume afterwards",
    ),
    (
        r"InterprocessLockFailed|nsight-compute-lock",
        "ncu cannot open its lock file, which belongs to another user; set TMPDIR to a folder of your own",
    ),
    (
        r"CUPTI_ERROR_MULTIPLE_SUBSCRIBERS|[Aa]nother (?:profiling )?tool is (?:already )?attached",
        "another profiler is already attached to the process; use one profiler at a time",
    ),
    (
        r"Driver could not be loaded|Cuda driver is not compatible|[Uu]nsupported (?:GPU|driver)"
        r"|Profiling is not supported on (?:this )?device",
        "this version does not support the GPU or its driver; install the version of the driver's CUDA or a newer one",
    ),
    (
        r"[Uu]nrecogni[sz]ed option|the argument for option '[^']*' is invalid",
        "this version does not support an option; install a newer one",
    ),
    (r"No space left on device", "the disk is full; free space, or set TMPDIR and --out to a larger disk"),
    (
        r"Failed to find metric|metrics? .*(?:not found|invalid)",
        "ncu refused a metric; `ncu --query-metrics` lists them",
    ),
)
"""Error patterns of the tools, and what to do."""

_NCU_ERROR = re.compile(r"^==ERROR== (?P<text>.+)$", re.MULTILINE)
_IGNORED_ERROR = re.compile(r"The application returned an error code|terminated by signal|importer (?:binary|version)")
"""Failures of the program itself, and a missing nsys importer, which matters only when there is a report to import."""
_NSYS_ERROR = re.compile(
    r"^(?P<text>(?:.*\b(?:[Ii]mporter error|[Uu]nrecogni[sz]ed option|Program not found|No space left)\b|"
    r"(?:Error|ERROR|Failed|Unable|Cannot)\b).*)$",
    re.MULTILINE,
)
_MAX_ERROR_LENGTH = 300


def capture_status(capture: Capture, code: int, output: str, export: Export) -> tuple[str, str | None]:
    """Return the status of the capture alone, 'ok' if the tool succeeded, and a message.

    `code` is the tool's exit code, `output` the output of tool and program.
    """
    name = capture.tool.name
    if NOT_PERMITTED.search(output) and not export.kernels:
        return "permission_denied", PERMISSION_HINT
    if export.error:
        return "profiler_error", f"{name} {capture.tool.version}: {export.error}"
    tool_error = _find_tool_error(name, output)
    if not export.reports:
        return _status_without_report(capture, code, tool_error, output)
    if tool_error and name == "ncu":  # the report lacks the kernels that ncu failed on
        return "profiler_error", _describe_error(name, tool_error, output)
    if capture.cuda and not export.kernels and not export.copies:
        return "no_kernels", _describe_no_kernels(capture)
    return "ok", None


def _status_without_report(capture: Capture, code: int, tool_error: str, output: str) -> tuple[str, str]:
    """Return the status without a report: the tool failed, or recording never started, which nsys does not report."""
    name = capture.tool.name
    if tool_error or _find_advice(output):
        return "profiler_error", _describe_error(name, tool_error, output)
    if "No kernels were profiled" in output if name == "ncu" else code == 0 and capture.cuda:
        return "no_kernels", _describe_no_kernels(capture)
    if code == 0 and name == "nsys":
        return "profiler_error", (
            "nsys exited with 0 but wrote no report; check `nsys status --environment`, "
            "or use --profiler kineto, which records a CPU without nsys"
        )
    ended = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
    return "profiler_error", f"{name} wrote no report ({ended}); see its output in the log of the rank"


def _describe_no_kernels(capture: Capture) -> str:
    if capture.tool.name == "nsys":
        return "nsys recorded no GPU work: recording never started, or no GPU work ran meanwhile; check the window"
    return (
        "ncu profiled no kernel: recording never started, no GPU work ran meanwhile, or all of it was communication, "
        f"which is excluded ({', '.join(capture.not_profiled)}); check the window"
    )


def _describe_error(name: str, tool_error: str, output: str) -> str:
    """Return the tool's error message, with advice where there is some."""
    advice = _find_advice(output)
    message = f"{name}: {tool_error[:_MAX_ERROR_LENGTH]}" if tool_error else f"{name} failed"
    return f"{message}; {advice}" if advice else message


def _find_advice(output: str) -> str | None:
    return next((advice for pattern, advice in _ADVICE if re.search(pattern, output)), None)


def _find_tool_error(name: str, output: str) -> str:
    """Return the tool's first error; nsys does not mark them, so a line that looks like one."""
    for match in (_NCU_ERROR if name == "ncu" else _NSYS_ERROR).finditer(output):
        if not _IGNORED_ERROR.search(match["text"]):
            return " ".join(match["text"].split())
    return ""
