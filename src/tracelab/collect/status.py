"""What became of a run, from what its ranks said and how their processes ended: a status is a result."""

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
PERMISSION_HINT = (
    "profiling the GPU is not permitted to this user (ERR_NVGPUCTRPERM): let an administrator set "
    "NVreg_RestrictProfilingToAdminUsers=0 for the nvidia module, start the container with --cap-add=SYS_ADMIN, "
    "or run as root"
)

RANKING = ("oom", "permission_denied", "profiler_error", "failed", "timeout", "no_kernels", "not_run", "ok")
"""Of several ranks the run has the first of these: the cause stands before what it causes in others."""
_ERROR_LENGTH = 500


def status_of_error(error: BaseException, places: WritePaths | None = None) -> tuple[str, str]:
    """Status and sentence for what a training process ended with."""
    name, text = type(error).__name__, " ".join(str(error).split())[:_ERROR_LENGTH]
    if isinstance(error, MemoryError) or name == "OutOfMemoryError":
        return "oom", text or "memory ran out"
    if isinstance(error, RuntimeError) and OUT_OF_MEMORY.search(text):
        return "oom", text
    if isinstance(error, OSError) and (full := describe_disk_error(error, places)):
        return "failed", full
    return "failed", f"{name}: {text}" if text else name


def status_of_exit(end: ProcessExit, killed_for_memory: bool) -> tuple[str, str]:  # noqa: FBT001  a fact, no switch
    """Status and sentence for a process that could not say anything itself."""
    if end.why == "timeout":
        return "timeout", "the time limit was reached, and the process did not stop when told to"
    if NOT_PERMITTED.search(end.output):
        return "permission_denied", PERMISSION_HINT
    if killed_for_memory and end.code == -signal.SIGKILL:
        return "oom", "the system killed the process, for its memory had run out"
    if end.why == "others":
        return "failed", "ended, for another rank had failed"
    last = _last_line(end.output)
    if end.code < 0:
        return "failed", f"killed by {_signal_name(-end.code)}" + (f"; its last words: {last}" if last else "")
    return "failed", f"ended with exit code {end.code}" + (f": {last}" if last else " and said nothing")


def rank_outcome(
    end: ProcessExit, answer: Mapping[str, Any], known: Mapping[str, Any], *, killed_for_memory: bool
) -> dict[str, Any]:
    """What became of a rank: its own answer; where it gave none what its end says, and what it had made known."""
    if end.why == "interrupted":
        said = dict(answer or known)
        return said if said.get("status") == "ok" else said | {"status": "failed", "error": "interrupted"}
    if not answer:
        code, error = status_of_exit(end, killed_for_memory)
        return {**known, "status": code, "error": error, "collateral": end.why == "others"}
    if answer.get("stopped") and end.why != "timeout":
        return {**answer, "status": "failed", "error": "ended, for another rank had failed", "collateral": True}
    if answer["status"] == "timeout":
        return {**answer, "error": f"the time limit was reached; {_kept(answer)}"}
    return dict(answer)


def _kept(answer: Mapping[str, Any]) -> str:
    """What is left of a run that was told to stop."""
    if answer.get("unsaved"):
        return f"what was recorded could not be written: {answer['unsaved']}"
    if answer.get("windows") == 0 and answer.get("files") == []:
        return "nothing had been recorded until then"
    return "what was recorded until then is kept"


def has_gpu_work(outcomes: Mapping[int, Mapping[str, Any]]) -> bool:
    """Whether any rank recorded work of a GPU; copies alone are work, too."""
    return any(outcome.get("kernels") or outcome.get("copies") for outcome in outcomes.values())


def hide_home(error: str | None) -> str | None:
    """A sentence, or what was printed, without the way to this user's files, for others may read it."""
    return error and error.replace(str(Path.home()), "~")


def run_status(outcomes: Mapping[int, Mapping[str, Any]]) -> tuple[str, str | None]:
    """Status and sentence of the whole run, from every rank's own."""
    rank, worst = min(outcomes.items(), key=lambda item: (_place(item[1]), item[0]))
    if worst["status"] == "ok":
        return "ok", None
    error = str(worst.get("error") or "")
    return str(worst["status"]), f"rank {rank}: {error}" if len(outcomes) > 1 else error


def _place(outcome: Mapping[str, Any]) -> tuple[bool, int, float]:
    """What others caused stands behind all causes, and of the same status the first to happen before the others."""
    return bool(outcome.get("collateral")), RANKING.index(outcome["status"]), float(outcome.get("at") or "inf")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _last_line(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1][:_ERROR_LENGTH] if lines else ""
