"""What became of a capture: a status and a sentence, from the tool's words and from what it left behind."""

import re

from tracelab.collect.nvidia.capture import Capture
from tracelab.collect.nvidia.export_report import Export
from tracelab.collect.status import NOT_PERMITTED, PERMISSION_HINT

_KNOWN = (
    (
        r"driver resource was unavailable",
        "another tool holds the GPU's counters, most often DCGM: `dcgmi profile --pause`, and --resume afterwards",
    ),
    (
        r"InterprocessLockFailed|nsight-compute-lock",
        "ncu cannot open its lock, which is another user's; set TMPDIR to a folder of your own",
    ),
    (
        r"CUPTI_ERROR_MULTIPLE_SUBSCRIBERS|[Aa]nother (?:profiling )?tool is (?:already )?attached",
        "another profiler is in the process already; profile with one at a time",
    ),
    (
        r"Driver could not be loaded|Cuda driver is not compatible|[Uu]nsupported (?:GPU|driver)"
        r"|Profiling is not supported on (?:this )?device",
        "this version does not fit the GPU or its driver; install the one of the driver's CUDA, or a newer one",
    ),
    (
        r"[Uu]nrecogni[sz]ed option|the argument for option '[^']*' is invalid",
        "this version does not know an option that it was given; install a newer one",
    ),
    (r"No space left on device", "the disk is full; make room, or set TMPDIR and --out to a larger one"),
    (
        r"Failed to find metric|metrics? .*(?:not found|invalid)",
        "ncu refused a metric; `ncu --query-metrics` lists them",
    ),
)
"""What a tool says, and what to do about it."""

_OF_NCU = re.compile(r"^==ERROR== (?P<text>.+)$", re.MULTILINE)
_NO_ERROR = re.compile(r"The application returned an error code|terminated by signal|importer (?:binary|version)")
"""The program's own failure; and an importer that nsys misses, which is found when there is something to import."""
_OF_NSYS = re.compile(
    r"^(?P<text>(?:.*\b(?:[Ii]mporter error|[Uu]nrecogni[sz]ed option|Program not found|No space left)\b|"
    r"(?:Error|ERROR|Failed|Unable|Cannot)\b).*)$",
    re.MULTILINE,
)
_LONGEST = 300


def capture_status(capture: Capture, code: int, output: str, export: Export) -> tuple[str, str | None]:
    """The capture's own status, 'ok' where the tool did its part; how the program fared is for others to say.

    `code` is the tool's exit code, `output` what it and the program printed.
    """
    name = capture.tool.name
    if NOT_PERMITTED.search(output) and not export.kernels:
        return "permission_denied", PERMISSION_HINT
    if export.error:
        return "profiler_error", f"{name} {capture.tool.version}: {export.error}"
    said = _said(name, output)
    if not export.reports:
        return _no_report(capture, code, said, output)
    if said and name == "ncu":  # kernels that it gave up on are missing from the report
        return "profiler_error", _told(name, said, output)
    if capture.cuda and not export.kernels and not export.copies:
        return "no_kernels", _no_kernels(capture)
    return "ok", None


def _no_report(capture: Capture, code: int, said: str, output: str) -> tuple[str, str]:
    """Without a report: the tool failed, or the window never opened; ncu says so then, nsys ends as if all is well."""
    name = capture.tool.name
    known = _known(output)
    if said or known:
        return "profiler_error", _told(name, said, output)
    if "No kernels were profiled" in output if name == "ncu" else code == 0 and capture.cuda:
        return "no_kernels", _no_kernels(capture)
    if code == 0 and name == "nsys":
        return "profiler_error", (
            "nsys ended as if all was well, and wrote no report; `nsys status --environment` tells what it lacks here, "
            "and --profiler kineto records a processor without it"
        )
    ended = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
    return "profiler_error", f"{name} wrote no report ({ended}); what it printed may say why"


def _no_kernels(capture: Capture) -> str:
    if capture.tool.name == "nsys":
        return "nsys recorded no work of a GPU: the window opened never, or no work ran on a GPU while it was open"
    return (
        "ncu profiled no kernel: the window opened never, no work ran on a GPU while it was open, or all of it was "
        f"communication, which is left out ({', '.join(capture.not_profiled)})"
    )


def _told(name: str, said: str, output: str) -> str:
    """The tool's own words, and what to do where we know."""
    advice = _known(output)
    words = f"{name} says: {said[:_LONGEST]}" if said else f"{name} failed"
    return f"{words}; {advice}" if advice else words


def _known(output: str) -> str | None:
    return next((advice for pattern, advice in _KNOWN if re.search(pattern, output)), None)


def _said(name: str, output: str) -> str:
    """The first error that the tool itself tells of; of nsys's, which bear no mark, what looks like one."""
    for match in (_OF_NCU if name == "ncu" else _OF_NSYS).finditer(output):
        if not _NO_ERROR.search(match["text"]):
            return " ".join(match["text"].split())
    return ""
