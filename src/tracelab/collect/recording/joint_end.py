"""Join the outcomes of the ranks of `tracelab.record` in one run.json, in any order in which they end."""

import contextlib
import fcntl
import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tracelab.collect.run_end import Result, finish_run
from tracelab.collect.run_folder import KILLED, read_run_json, write_json

OUTCOMES = ".outcomes"
"""Folder in a run folder with the outcomes of the ranks that have ended, until all have."""
PEERS_S = 10.0
"""Time that rank 0 gives the others, in seconds, before its process ends, and a launcher ends theirs."""
_POLL_S = 0.05
_MISSING = {"status": "failed", "error": "has not ended the block of tracelab.record", "vanished": True}


def finish_rank(folder: Path, rank: int, world_size: int, outcome: dict[str, Any]) -> Result | None:
    """Write run.json with the outcomes of this rank and of those that ended before; rank 0 waits for the others.

    Returns the result; None where another rank has written all outcomes, or the last one will. Entries of an outcome
    beside those of a rank: `uses_gpu`.
    """
    own = folder / OUTCOMES / f"{rank}.json"
    is_written = False
    with contextlib.suppress(OSError):
        own.parent.mkdir(exist_ok=True)
        write_json(own, outcome)
        is_written = True
    ended, result = _write_joint(folder, rank, world_size, outcome, is_written=is_written)
    if rank:
        return result if ended == world_size else None
    until = time.monotonic() + PEERS_S  # a launcher may end this process meanwhile: run.json is written already
    while own.exists() and ended < world_size and time.monotonic() < until:
        time.sleep(_POLL_S)
        if len(_read_outcomes(own.parent)) > ended:
            ended, result = _write_joint(folder, rank, world_size, outcome, is_written=True)
    is_taken_over = is_written and ended < world_size and not own.exists()
    return None if is_taken_over else result


def _write_joint(
    folder: Path, rank: int, world_size: int, outcome: dict[str, Any], *, is_written: bool
) -> tuple[int, Result | None]:
    """Write run.json; returns how many ranks have ended, and the result, None where another rank has written all."""
    outcomes_folder = folder / OUTCOMES
    with _locked(outcomes_folder):
        description = read_run_json(folder)
        outcomes = _read_outcomes(outcomes_folder) | {rank: outcome}
        if description is None or (is_written and not (outcomes_folder / f"{rank}.json").exists()):
            return world_size, None
        ranks = range(world_size)
        all_outcomes = {each: outcomes.get(each) or _missing_outcome(folder, each) for each in ranks}
        files = [file["file"] for each in all_outcomes.values() for file in each.get("files", ())]
        files += [name for each in ranks if (folder / (name := f"steps.rank{each}.jsonl")).exists()]
        facts = {
            "world_size": world_size,
            "gpus": sum(bool(each.get("uses_gpu")) for each in outcomes.values()),
            "expects": {"ranks": list(ranks), "files": sorted(files)},
        } | (KILLED if any(each.get("terminated") for each in outcomes.values()) else {})
        result = finish_run(folder, description | facts, all_outcomes, None)
        if len(outcomes) == world_size:
            shutil.rmtree(outcomes_folder, ignore_errors=True)
        return len(outcomes), result


def _missing_outcome(folder: Path, rank: int) -> dict[str, Any]:
    """Return the outcome of a rank that has not ended, with the windows that it has saved."""
    return {**_MISSING, "files": [{"file": path.name} for path in sorted(folder.glob(f"rank{rank}.*trace.json.gz"))]}


def _read_outcomes(folder: Path) -> dict[int, dict[str, Any]]:
    outcomes = {}
    for path in sorted(folder.glob("[0-9]*.json")):
        with contextlib.suppress(OSError, ValueError):
            outcomes[int(path.stem)] = json.loads(path.read_bytes())
    return outcomes


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the folder against the other ranks, where its file system has locks."""
    try:
        file = (folder / "lock").open("w")
    except OSError:
        yield
        return
    with file:
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
