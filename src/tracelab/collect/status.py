"""Derive the status of a run from its ranks' outcomes and their processes' exits."""

import re
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tracelab.collect.disk_errors import WritePaths, describe_disk_error
from tracelab.collect.process.launch import ProcessExit

OUT_OF_MEMORY = re.compile(
    r"can't allocate memory|cannot allocate memory|not enough memory|out of memory|CUBLAS_STATUS_ALLOC_FAILED"
    r"|CUDNN_STATUS_ALLOC_FAILED|DefaultCPUAllocator",
    re.IGNORECASE,
)
NOT_PERMITTED = re.compile(
    r"ERR_NVGPUCTRPERM|CUPTI_ERROR_INSUFFICIENT_PRIVILEGES|insufficient privileges", re.IGNORECASE
)
PEER_LOST = re.compile(
    r"connection (?:was )?(?:closed|reset|likely closed|refused)|reset by peer|closed by peer|broken pipe|"
    r"failed to recv, got 0 bytes|ncclRemoteError|remote process exit|socket timeout|socket closed|peer closed|"
    r"timed out waiting|watchdog caught collective|unhandled system error|ProcessGroupNCCL.*(?:abort|timeout|watchdog)|"
    r"DistBackendError|recvBytes|sendBytes",
    re.IGNORECASE,
)
"""Errors of gloo, NCCL and the store in a rank whose peer has ended: consequences, where another rank has a cause."""
_MEMORY_ERROR = re.compile(r"[\w.]*MemoryError(?:: (.*))?")
"""Python's MemoryError and NumPy's subclass of it, as a traceback ends."""
_NO_MEMORY = "memory ran out"
_CAUGHT = re.compile(r"Caught (\w+) in ([^\n]+)\.\nOriginal Traceback")
PERMISSION_HINT = (
    "this user may not profile the GPU (ERR_NVGPUCTRPERM): have an administrator set "
    "NVreg_RestrictProfilingToAdminUsers=0 for the nvidia module, start the container with --cap-add=SYS_ADMIN, "
    "or run as root"
)

RANKING = ("oom", "permission_denied", "profiler_error", "failed", "timeout", "no_kernels", "not_run", "ok")
"""The run has the first of its ranks' statuses in this order: causes before their consequences in other ranks."""
_ERROR_LENGTH = 500
_CUDA_ADVICE = re.compile(
    r"\n(?:Search for `|CUDA kernel errors might be|For debugging consider|Compile with `|Device-side assertion).*",
    re.DOTALL,
)
"""How torch's errors of CUDA end, on four lines."""


def status_of_error(error: BaseException, places: WritePaths | None = None) -> tuple[str, str]:
    """Return status and message for the exception that ended a rank."""
    name, text = type(error).__name__, one_line(_original_message(str(error)))[:_ERROR_LENGTH]
    if isinstance(error, MemoryError) or name == "OutOfMemoryError":
        return "oom", text or _NO_MEMORY
    if isinstance(error, RuntimeError) and OUT_OF_MEMORY.search(text):
        return "oom", text
    if isinstance(error, OSError) and (full := describe_disk_error(error, places)):
        return "failed", full
    if isinstance(error, SystemExit) and isinstance(error.code, int):
        return "failed", f"ended with exit code {error.code}"
    return "failed", f"{name}: {text}" if text else name


def one_line(text: str) -> str:
    """Return the message of an error in one line, without the advice that torch adds to those of CUDA."""
    return " ".join(_CUDA_ADVICE.sub("", text).split())


def _original_message(text: str) -> str:
    """Return the last line of an error that torch raises again with the traceback of a replica or a loader."""
    where = _CAUGHT.match(text)
    if where is None:
        return text
    kind, place = where.groups()
    return f"{text.strip().splitlines()[-1].removeprefix(f'{kind}: ')} (in {place})"


def status_of_exit(
    end: ProcessExit,
    killed_for_memory: bool,  # noqa: FBT001  a fact, no switch
    cause: str | None = None,
) -> tuple[str, str]:
    """Return status and message for a process that ended without writing its outcome.

    The message quotes `cause`, empty where none is known; None quotes the last line of the output.
    """
    if end.why == "timeout":
        return "timeout", "reached the time limit, and the process ignored SIGTERM"
    if NOT_PERMITTED.search(end.output):
        return "permission_denied", PERMISSION_HINT
    if killed_for_memory and end.code == -signal.SIGKILL:
        return "oom", "the system ran out of memory and killed the process"
    if end.why == "others":
        return "failed", "terminated because another rank failed"
    if cause and (memory := _MEMORY_ERROR.fullmatch(cause)):
        return "oom", memory[1] or _NO_MEMORY
    if cause is not None:
        how = f"killed by {_signal_name(-end.code)}" if end.code < 0 else f"ended with exit code {end.code}"
        return "failed", f"{how}: {cause}" if cause else how
    last = _last_line(end.output)
    if end.code < 0:
        return "failed", f"killed by {_signal_name(-end.code)}" + (f"; last line of output: {last}" if last else "")
    return "failed", f"ended with exit code {end.code}" + (f": {last}" if last else " and no output")


def rank_outcome(
    end: ProcessExit, outcome: Mapping[str, Any], partial: Mapping[str, Any], *, killed_for_memory: bool
) -> dict[str, Any]:
    """Return the outcome of a rank: its own, or its partial outcome completed from how its process ended."""
    if end.why == "interrupted":
        entries = dict(outcome or partial)
        return entries if entries.get("status") == "ok" else entries | {"status": "failed", "error": end.interruption}
    if not outcome:
        code, error = status_of_exit(end, killed_for_memory)
        aborted = end.code == -signal.SIGABRT and PEER_LOST.search(end.output) is not None  # by NCCL's watchdog
        return {**partial, "status": code, "error": error, "collateral": end.why == "others", "lost_peer": aborted}
    if outcome.get("stopped") and end.why != "timeout":
        return {**outcome, "status": "failed", "error": "terminated because another rank failed", "collateral": True}
    if outcome["status"] == "timeout":
        return {**outcome, "error": f"reached the time limit; {_describe_kept(outcome)}"}
    return dict(outcome)


def _describe_kept(outcome: Mapping[str, Any]) -> str:
    """Describe what remains of a run that reached its time limit."""
    if outcome.get("unsaved"):
        return f"the recording could not be written: {outcome['unsaved']}"
    if outcome.get("windows") == 0 and outcome.get("files") == []:
        return "nothing was recorded before it"
    return "what was recorded before it is kept"


def has_gpu_work(outcomes: Mapping[int, Mapping[str, Any]]) -> bool:
    """Return whether any rank recorded GPU work; copies alone count too."""
    return any(outcome.get("kernels") or outcome.get("copies") for outcome in outcomes.values())


def hide_home(error: str | None) -> str | None:
    """Replace the home folder in a text by ~: run folders may be shared."""
    return error and error.replace(str(Path.home()), "~")


def run_status(outcomes: Mapping[int, Mapping[str, Any]]) -> tuple[str, str | None]:
    """Return status and message of the whole run, those of the rank that caused them."""
    unsuccessful = [(rank, outcome) for rank, outcome in outcomes.items() if outcome["status"] != "ok"]
    if not unsuccessful:
        return "ok", None
    rank, worst = min(unsuccessful, key=lambda item: (_severity(item[1]), item[0]))
    error = str(worst.get("error") or "")
    return str(worst["status"]), f"rank {rank}: {error}" if len(outcomes) > 1 else error


def _severity(outcome: Mapping[str, Any]) -> tuple[int, int, float]:
    """Return a sort key: causes before their consequences in other ranks, then by status, then the earliest first."""
    return _distance_from_cause(outcome), RANKING.index(outcome["status"]), float(outcome.get("at") or "inf")


def _distance_from_cause(outcome: Mapping[str, Any]) -> int:
    """Return 0 for a cause, 1 for a process that vanished, 2 for a rank that lost a peer, 3 for one terminated here."""
    if outcome.get("vanished"):
        return 1
    if outcome.get("collateral"):
        return 3
    lost_peer = outcome["status"] == "failed" and PEER_LOST.search(str(outcome.get("error") or ""))
    return 2 if lost_peer or outcome.get("lost_peer") else 0


def find_exception(errors: str) -> str:
    """Return the line of the last exception that Python printed to a standard error; empty if there is none."""
    _, traceback, after = errors.rpartition("Traceback (most recent call last):\n")
    lines = after.splitlines() if traceback else []
    return next((line.strip()[:_ERROR_LENGTH] for line in lines if line[:1].strip()), "")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _last_line(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1][:_ERROR_LENGTH] if lines else ""
