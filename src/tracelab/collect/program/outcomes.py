"""Derive the outcome of each rank from the records of a program's processes, and from how the program ended."""

import re
import signal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tracelab.collect import status
from tracelab.collect.process.launch import ProcessExit
from tracelab.collect.recording.process_record import REQUEST
from tracelab.collect.recording.window import Window

Record = Mapping[str, Any]

_TORCHRUN_EXIT = re.compile(r"exitcode\s*:\s*(-?\d+)\)?[^\n]*?\(pid: (\d+)\)")
_FULL_DISK = re.compile(r"no space left on device|disk quota exceeded", re.IGNORECASE)
_KINETO_LINE = re.compile(r"^(USDT|INFO|STAGE|VERBOSE):\d{4}-\d\d-\d\d .*\n?", re.MULTILINE)
"""Lines that Kineto prints at each begin and end of a recording."""
_LOST = "its recording is lost, because a process saves it when Python exits"
_LEFT = "the process ended by exec or a library's _exit, or was killed"
_REPLACED = "the program replaced itself by exec"
_WITHOUT_STEPS = "; where no optimizer steps, choose --after-s and --for-s"
_TERMINATED = "terminated because another rank failed"


@dataclass(frozen=True)
class ProgramEnd:
    """How a program ended, and what its processes wrote."""

    end: ProcessExit
    pid: int
    profiler: str
    window: Window
    killed_for_memory: bool = False
    was_requested: bool = False
    """Whether a recording was requested through the file in the run folder."""
    python_started: bool = True
    """Whether any Python of the program read the start-up folder."""
    hook_error: str = ""
    errors: str = ""
    """The end of what the program printed to its standard error."""
    output_error: str = ""
    """Why what it printed could not be passed on."""


def choose_records(records: Iterable[Record]) -> dict[int, Record]:
    """Return the record of each rank: of several processes that train, one that recorded, with most steps.

    Where any process knows its rank, those that do not are launchers and helpers. A note counts the recordings that are
    left out, of training or of any other op, and names their programs.
    """
    known = list(_mark_replaced(records))
    if any(record.get("rank_known") for record in known):
        known = [record for record in known if record.get("rank_known")]
    by_rank: dict[int, list[Record]] = {}
    for record in sorted(known, key=_weight):
        by_rank.setdefault(int(record.get("rank", 0)), []).append(record)
    return {rank: _note_left_out(by_rank[rank]) for rank in sorted(by_rank)}


def _mark_replaced(records: Iterable[Record]) -> Iterator[Record]:
    """Mark the records of processes that a later record has, too: they replaced themselves by exec."""
    later: set[tuple[Any, Any]] = set()
    for record in sorted(records, key=lambda record: -float(record.get("started", 0))):
        process = _process(record)
        yield {**record, "replaced": True} if process in later and "ended" not in record else record
        later.add(process)


def _process(record: Record) -> tuple[Any, Any]:
    return record.get("host"), record.get("pid")


def _note_left_out(records: Sequence[Record]) -> Record:
    """Return the last record, the one that counts, with a note of the others."""
    chosen = records[-1]
    notes = [chosen.get("note"), _REPLACED if chosen.get("replaced") else None]
    left_out: list[str] = []
    for record in records[:-1]:
        steps, is_recorded = record.get("steps", 0), bool(record.get("files"))
        if record.get("replaced"):
            lost = "which left nothing recorded" if not is_recorded else "whose recording is left out"
            if record.get("recording"):
                lost = "whose open window is lost" + (", and the saved ones are left out" if is_recorded else "")
            notes.append(f"{_REPLACED} after {steps} step{'s' * (steps != 1)}, {lost}")
        elif is_recorded and (steps or record.get("ops") or record.get("kernels")):
            left_out.append(str(record.get("program") or ""))
    if left_out:
        whose = (
            "the program that replaced it" if chosen.get("replaced") else "other processes without a rank of their own"
        )
        programs = ", ".join(sorted(set(filter(None, left_out))))
        named = f" ({programs})" if programs else ""
        notes.append(f"left out {len(left_out)} recording{'s' * (len(left_out) != 1)} of {whose}{named}")
    note = "; ".join(filter(None, notes))
    return {**chosen, "note": note} if note else chosen


def _weight(record: Record) -> tuple[bool, bool, int, int, int, float]:
    steps, files = record.get("steps", 0), record.get("files") or ()
    events = sum(file.get("events", 0) for file in files)
    return steps > 0, bool(files), steps, record.get("windows", 0), events, -float(record.get("started", 0))


def program_outcomes(program: ProgramEnd, chosen: Mapping[int, Record]) -> dict[int, dict[str, Any]]:
    """Return the outcome of every rank, the program's own failure at the lowest."""
    program = replace(program, end=replace(program.end, output=_KINETO_LINE.sub("", program.end.output)))
    codes = {int(pid): int(code) for code, pid in _TORCHRUN_EXIT.findall(program.end.output)}
    outcomes = {rank: _rank_outcome(program, record, codes) for rank, record in chosen.items()}
    failed = [outcome for outcome in outcomes.values() if outcome["status"] != "ok"]
    if failed and all(_is_terminated(outcome) for outcome in failed):
        for outcome in failed:  # no rank has a cause: the signal is from outside
            outcome |= {"error": outcome["error"].replace(_TERMINATED, "ended by SIGTERM"), "collateral": False}
    if not outcomes or (not failed and (program.end.code or program.end.why in ("timeout", "interrupted"))):
        first = min(outcomes, default=0)
        outcomes[first] = outcomes.get(first, {}) | _own_end(program)
    if program.end.why == "interrupted":
        for rank, outcome in outcomes.items():
            if outcome["status"] != "ok":
                lost = _describe_missing(program, chosen.get(rank, {}))
                outcome |= {"status": "failed", "error": "; ".join(filter(None, (program.end.interruption, lost)))}
    _note_lost_output(program, outcomes)
    _note_missing_recordings(program, outcomes)
    return outcomes


def describe_lost(record: Record) -> str:
    """Return that the open window of a process is lost, as the end of a sentence; empty where none was open."""
    return f"; {_LOST}" if record.get("recording") else ""


def _describe_missing(program: ProgramEnd, record: Record) -> str:
    """Return why an interrupted process has no recording; empty where it has one."""
    if program.profiler != "kineto" or record.get("files"):
        return ""
    return _LOST if record.get("recording") else "" if record.get("windows") else "no window opened before it"


def _note_lost_output(program: ProgramEnd, outcomes: dict[int, dict[str, Any]]) -> None:
    """Have the first rank fail where the program's output was lost, or name that as well where any has failed."""
    if program.output_error and program.end.why == "itself":
        first = next((rank for rank, outcome in outcomes.items() if outcome["status"] != "ok"), min(outcomes))
        error = f"the program's output cannot be written: {program.output_error}"
        outcome = outcomes[first]
        if outcome["status"] == "ok":
            outcome |= {"status": "failed", "error": error}
        else:
            outcome["error"] = f"{outcome['error']}; {error}"


def _is_terminated(outcome: Mapping[str, Any]) -> bool:
    return str(outcome.get("error")).startswith(_TERMINATED)


def kept_entries(record: Record) -> dict[str, Any]:
    """Return what a process recorded, as entries of its outcome."""
    kept = (
        *("steps", "recorded_steps", "recorded_ranges", "windows", "files"),
        *("kernels", "copies", "versions", "note", "requested"),
    )
    return {name: record[name] for name in kept if name in record}


def _rank_outcome(program: ProgramEnd, record: Record, codes: Mapping[int, int]) -> dict[str, Any]:
    outcome = kept_entries(record) | _rank_status(program, record, codes.get(record["pid"]))
    problem = record.get("problem") or record.get("steps_problem")
    if problem and outcome["status"] == "ok":
        is_disk = "free space" in problem or "file size limit" in problem
        outcome |= {"status": "failed" if is_disk else "profiler_error", "error": problem}
    elif problem and record.get("problem") and problem != outcome["error"]:
        outcome["error"] = f"{outcome['error']}; {problem}"
    return outcome


def _rank_status(program: ProgramEnd, record: Record, code: int | None) -> dict[str, Any]:
    """Return status and error of a process, with the time of its end where that is known."""
    end = program.end
    at = {"at": record["ended"]} if "ended" in record else {}
    if record.get("terminated") and end.why == "itself" and end.code == 0:  # as a pool ends its processes
        return {"status": "ok"} | at
    if record.get("terminated"):
        if end.why == "timeout":
            return {"status": "timeout", "error": f"reached the time limit; {_describe_kept(record)}"} | at
        why = program.end.interruption if end.why == "interrupted" else _TERMINATED
        return {"status": "failed", "error": why, "collateral": end.why != "interrupted"} | at
    if "status" in record:
        return {"status": record["status"], "error": status.hide_home(str(record.get("error")))} | at
    if "ended" in record:
        if not code:
            return {"status": "ok"} | at
        return {"status": "failed", "error": f"ended with exit code {code}"} | at
    return _status_without_end(program, record, code)


def _status_without_end(program: ProgramEnd, record: Record, code: int | None) -> dict[str, Any]:
    """Return status and error of a process that Python did not end: a signal or exec did."""
    end = program.end
    lost = describe_lost(record)
    if end.code == 0 and end.why == "itself":
        if record.get("recording"):
            return {"status": "profiler_error", "error": f"{_REPLACED if record.get('replaced') else _LEFT}{lost}"}
        return {"status": "ok"}
    if code is None and record["pid"] == program.pid:
        code = end.code
    if code == -signal.SIGTERM and end.why == "itself":  # a launcher ends the other ranks when one fails
        return {"status": "failed", "error": f"{_TERMINATED}{lost}", "collateral": True}
    if code is None:
        problem = f"its process (pid {record['pid']}) was killed, crashed, or called exec or C's _exit"
        return {"status": "failed" if end.why != "timeout" else "timeout", "error": f"{problem}{lost}"}
    is_own = record["pid"] == program.pid
    own = ProcessExit(0, code, end.why, end.output if is_own else "")
    cause = status.find_exception(program.errors) if is_own else ""
    name, error = status.status_of_exit(own, program.killed_for_memory, cause)
    return {"status": name, "error": f"{status.hide_home(error)}{lost}"}


def _describe_kept(record: Record) -> str:
    if record.get("files"):
        return "what was recorded before it is kept"
    return "nothing was recorded before it"


def _own_end(program: ProgramEnd) -> dict[str, Any]:
    """Return status and error of the program's first process."""
    end = program.end
    if end.why == "interrupted":
        return {"status": "failed", "error": program.end.interruption}
    if end.why == "timeout":
        return {"status": "timeout", "error": "reached the time limit"}
    if end.code == 0:
        return {"status": "ok"}
    last = "\n".join(end.output.splitlines()[-20:])
    if status.OUT_OF_MEMORY.search(last):
        line = next(line for line in last.splitlines() if status.OUT_OF_MEMORY.search(line))
        return {"status": "oom", "error": status.hide_home(line.strip())}
    if _FULL_DISK.search(last):
        return {"status": "failed", "error": "the disk is full or over quota; free space and run again"}
    code = end.code - 128 if end.code in (137, 139, 134, 143) else 0  # a shell's code for a signal
    shown = ProcessExit(0, -code, end.why, end.output) if code else end
    name, error = status.status_of_exit(shown, program.killed_for_memory, status.find_exception(program.errors))
    return {"status": name, "error": status.hide_home(error)}


def _note_missing_recordings(program: ProgramEnd, outcomes: dict[int, dict[str, Any]]) -> None:
    """Give the ranks of a successful program that Kineto should have recorded, and did not, the reason as status."""
    if program.profiler != "kineto" or any(outcome["status"] != "ok" for outcome in outcomes.values()):
        return
    for outcome in outcomes.values():
        if not outcome.get("files"):
            outcome |= {"status": "profiler_error", "error": _explain_no_recording(program, outcome)}


def _explain_no_recording(program: ProgramEnd, outcome: Mapping[str, Any]) -> str:
    if program.hook_error:
        return f"the program ran, but its recording could not start: {program.hook_error}"
    if not program.python_started:
        return (
            "the program ran, but no Python in it read the start-up hook: it is no Python program, or runs Python with "
            "-I, -E or -S or without PYTHONPATH; use tracelab.record in the script, or --profiler nsys"
        )
    if "steps" not in outcome:
        return "the program ran, but no process of it that trains imported torch, so Kineto had nothing to record"
    steps = outcome["steps"]
    ended = f"the program ended after {steps} optimizer step{'s' * (steps != 1)}"
    if program.window.on_demand and not (program.was_requested or outcome.get("requested")):
        return (
            f"{ended}, and no request came; request each recording by SIGUSR1 to tracelab collect run, or a touch of "
            f"the file `{REQUEST}` in the run folder"
        )
    return (
        f"{ended}, before the window opened: "
        f"{program.window.describe()}{_WITHOUT_STEPS if not steps and program.window.follows_steps else ''}"
    )


def collect_files(folder: Path, processes: Path, chosen: Mapping[int, Record]) -> list[str]:
    """Move the files of the chosen processes into the run folder, and return their names.

    Those of other processes that were linked there when their windows were over leave it again.
    """
    kept = {record["folder"] for record in chosen.values()}
    for path in processes.glob("*/rank*"):
        target = folder / path.name
        if path.parent.name not in kept and target.exists() and target.samefile(path):
            target.unlink()
    moved = []
    for name in kept:
        for path in sorted((processes / name).glob("*rank*")):
            if not path.name.startswith("."):  # a part of a file
                path.replace(folder / path.name)
                moved.append(path.name)
    return sorted(moved)


def count_gpus(chosen: Sequence[Record]) -> int:
    """Return how many ranks used a GPU."""
    return sum(bool(record.get("uses_gpu") or record.get("kernels")) for record in chosen)
