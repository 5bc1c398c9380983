"""Finish run folders whose processes were all killed, as with their container or node, from what they left there."""

import contextlib
import json
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tracelab.collect.folder_lock import LOCK, hold_if_gone, is_same_boot
from tracelab.collect.process.rendezvous import OUTCOMES as TASK_OUTCOMES
from tracelab.collect.process.rendezvous import WORDS
from tracelab.collect.program.description import describe_end
from tracelab.collect.program.outcomes import Record, choose_records, collect_files, describe_lost, kept_entries
from tracelab.collect.program.tasks import join_facts
from tracelab.collect.recording.common_start import clear_requests
from tracelab.collect.recording.joint_end import OUTCOMES
from tracelab.collect.recording.process_record import PROCESSES, TASK, open_window, read_records
from tracelab.collect.recording.shared_steps import complete_records, count_rows
from tracelab.collect.run_end import finish_run, keep_log
from tracelab.collect.run_folder import KILLED, read_run_json
from tracelab.errors import TracelabError
from tracelab.foreign_text import escape_path

_ERROR = "killed, with all of its processes, as by the end of its container or a crash of its node"
_HIDDEN = (TASK_OUTCOMES, WORDS, open_window(Path(), "*").name)
_UNCOUNTED = "steps are counted by their rows, which lack those of the last 0.1 s"
_RANK = re.compile(r"(?:^|\.)rank(\d+)\.")
_KNOWN: dict[str, Any] = {
    **dict.fromkeys(("profiler", "gpus", "gpu", "pin_memory")),
    **{name: {} for name in ("axes", "environment", "versions", "capture")},
}
"""Entries that the end of a run needs, for a run.json without them."""


def finish_killed_runs(locks: Iterable[Path]) -> Iterator[str]:
    """Finish the runs with these locks whose processes are known to be gone; yields a line for each.

    Cells of a sweep are left as they are: the sweep runs them again.
    """
    for folder in [lock.parent for lock in locks]:
        with _hold_all_if_gone(folder) as is_gone:
            description = read_run_json(folder) if is_gone else None
            if description is None or description.get("status") != "not_run" or description.get("sweep"):
                continue
            name = escape_path(folder)
            try:
                finish_killed_run(folder, description)
                (folder / LOCK).unlink(missing_ok=True)
            except (TracelabError, OSError) as error:
                yield f"{name}: the run was killed, and its end cannot be written: {error}; ingest as its owner"
            else:
                yield f"{name}: the run was {_ERROR}; it has the status failed, and what it recorded is kept"


@contextlib.contextmanager
def _hold_all_if_gone(folder: Path) -> Iterator[bool]:
    """Yield whether the collectors of all tasks of a run are known to be gone; if so, hold their locks."""
    with contextlib.ExitStack() as held:
        yield all(held.enter_context(hold_if_gone(each)) for each in (folder, *folder.glob(f"{PROCESSES}*")))


def finish_killed_run(folder: Path, description: Mapping[str, Any]) -> None:
    """Move what the processes have saved into the run folder, and write the final run.json.

    Call it only where all of them are gone. Raises OSError and TracelabError.
    """
    outcomes: dict[int, dict[str, Any]] = {}
    facts: dict[str, Any] = {}
    for processes in sorted(folder.glob(f"{PROCESSES}*")):
        chosen = choose_records(_read_complete(processes, folder.name))
        outcomes |= killed_outcomes(chosen, _ERROR)
        facts = join_facts(facts, describe_end(chosen, collect_files(folder, processes, chosen)))
        keep_log(_scratch(processes) / "log", folder / f"rank{min(chosen, default=0)}.log")
    for path in sorted(folder.glob(TASK_OUTCOMES)):
        sent = json.loads(path.read_bytes())
        outcomes |= {int(rank): each for rank, each in sent.get("ranks", {}).items()}
        facts = join_facts(facts, sent.get("facts", {}))
    if not outcomes:
        outcomes = _outcomes_of_files(folder, with_steps="workload" not in description)
        ranks = {"ranks": sorted(outcomes), "files": sorted(_rank_files(folder))}
        facts = {"world_size": description.get("world_size") or max(outcomes, default=0) + 1, "expects": ranks}
    failed = {"status": "failed", "error": _ERROR}
    whole = {**description, **{name: value for name, value in _KNOWN.items() if name not in description}}
    finish_run(folder, whole | facts | KILLED, outcomes or {0: failed}, None)
    for path in (*folder.glob(f"{PROCESSES}*"), folder / OUTCOMES):
        shutil.rmtree(path, ignore_errors=True)
    clear_requests(folder)
    for path in (path for name in _HIDDEN for path in folder.glob(name)):
        path.unlink(missing_ok=True)


def killed_outcomes(chosen: Mapping[int, Record], error: str) -> dict[int, dict[str, Any]]:
    """Return the outcomes of ranks whose collector was killed: their own failures, else that.

    A broken pipe is none of their own: the collector was the reader of what the program prints.
    """
    outcomes = {}
    for rank, record in chosen.items():
        end = {"status": "failed", "error": f"{error}{describe_lost(record)}"}
        failed = record.get("status") and not str(record.get("error")).startswith(BrokenPipeError.__name__)
        own = {name: record[name] for name in ("status", "error") if failed}
        outcomes[rank] = kept_entries(record) | end | own
    return outcomes


def _read_complete(processes: Path, run: str) -> list[dict[str, Any]]:
    return complete_records(read_records(processes), _scratch(processes), processes, run)


def _scratch(processes: Path) -> Path:
    """Return the folder for temporary files of a collector that was killed, which may be deleted."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        if is_same_boot(processes.parent):  # else its clock is another one
            return Path(json.loads((processes / TASK).read_bytes())["scratch"])
    return processes


def _outcomes_of_files(folder: Path, *, with_steps: bool) -> dict[int, dict[str, Any]]:
    """Return the outcomes of ranks that write into the run folder themselves: those that ended, and those killed."""
    outcomes: dict[int, dict[str, Any]] = {}
    for name in sorted(_rank_files(folder)):
        match = _RANK.search(name)
        killed = {"status": "failed", "error": _ERROR, "files": []}
        outcome = outcomes.setdefault(int(match[1]) if match else 0, killed)
        if name.endswith(".trace.json.gz"):
            outcome["files"].append({"file": name})
    if with_steps:
        for rank, outcome in outcomes.items():
            outcome |= {"steps": count_rows(folder, rank), "windows": len(outcome["files"]), "note": _UNCOUNTED}
            outcome["error"] += describe_lost({"recording": open_window(folder, rank).exists()})
    for path in sorted((folder / OUTCOMES).glob("[0-9]*.json")):
        with contextlib.suppress(OSError, ValueError):
            outcomes[int(path.stem)] = json.loads(path.read_bytes())
    return outcomes


def _rank_files(folder: Path) -> Iterator[str]:
    return (path.name for path in folder.glob("[!.]*") if _RANK.search(path.name) and path.suffix != ".log")
