"""Ranks that a launcher started, each a process of its own: they find each other, and answer, in the run folder."""

import contextlib
import json
import secrets
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tracelab.collect.process.launch import GRACE_S, Interrupted
from tracelab.collect.process.placement import Placement
from tracelab.collect.run_folder import RUN_JSON, read_run_json, write_atomically, write_json
from tracelab.errors import TracelabError

RANK_TIMEOUT_S = 120.0
"""How long ranks that were started elsewhere may take to appear, and to say what became of them."""
SHUTDOWN_TIMEOUT_S = GRACE_S + 5.0
"""What they get once this process was told to end: torchrun and SLURM end it for good after 30 s."""
_LOOK_S = 0.2


def gather_ranks(folder: Path, decided: Placement, description: dict[str, Any]) -> dict[str, Any]:
    """Write run.json as rank 0, once every other rank has said a word, and the words with it.

    A rank that finds its own word there knows that this is its launch: that of yesterday may have looked the same.
    """
    try:
        write_json(folder / RUN_JSON, description)
    except OSError as error:
        raise TracelabError(f"{folder}: cannot be written: {error.strerror}; choose another --out") from error
    missing = _elsewhere(decided)
    words: dict[str, str] = {}
    until = time.monotonic() + RANK_TIMEOUT_S
    while missing and time.monotonic() < until:
        words |= {str(rank): word for rank in missing if (word := _word(folder, rank))}
        missing -= set(map(int, words))
        if missing:
            time.sleep(_LOOK_S)
    if missing:
        raise TracelabError(
            f"{folder}: rank {', '.join(map(str, sorted(missing)))} did not begin within {RANK_TIMEOUT_S:.0f} s; "
            "do all nodes see this folder?"
        )
    if words:
        description = description | {"launch": description["launch"] | {"words": words}}
        write_json(folder / RUN_JSON, description)
    return description


def join_rank_zero(folder: Path, decided: Placement) -> dict[str, Any]:
    """run.json of the same launch, which rank 0 writes."""
    rank, word = decided.ranks[0], secrets.token_hex(8)
    until = time.monotonic() + RANK_TIMEOUT_S
    try:
        while time.monotonic() < until:
            found = read_run_json(folder) or {}
            launch = found.get("launch") or {}
            if isinstance(launch, dict) and launch.get("words", {}).get(str(rank)) == word:
                return found
            if found.get("status", "not_run") == "not_run" and _word(folder, rank) != word:  # rank 0 empties the folder
                with contextlib.suppress(OSError):
                    write_atomically(_path(folder, rank), word.encode())
            time.sleep(_LOOK_S)
    finally:
        _path(folder, rank).unlink(missing_ok=True)
    raise TracelabError(f"{folder}: rank 0 did not begin within {RANK_TIMEOUT_S:.0f} s; do all nodes see this folder?")


def write_outcome(folder: Path, rank: int, outcome: dict[str, Any]) -> None:
    """Say what became of a rank."""
    write_json(folder / f".outcome.rank{rank}.json", outcome)


def collect_outcomes(folder: Path, decided: Placement, came: Sequence[Interrupted] = ()) -> dict[int, dict[str, Any]]:
    """What the ranks say that other processes started; one that stays silent has failed.

    Waits less for them from the first signal on that comes to this process.
    """
    missing = _elsewhere(decided)
    outcomes: dict[int, dict[str, Any]] = {}
    until = time.monotonic() + RANK_TIMEOUT_S
    while missing and time.monotonic() < min([until, *(each.at_s + SHUTDOWN_TIMEOUT_S for each in came)]):
        for rank in sorted(missing):
            path = folder / f".outcome.rank{rank}.json"
            with contextlib.suppress(OSError, ValueError):
                outcomes[rank] = json.loads(path.read_bytes())
                path.unlink()
        missing -= set(outcomes)
        if missing:
            time.sleep(_LOOK_S)
    silent = {"status": "failed", "error": "its process ended without a word", "collateral": True}
    return outcomes | {rank: dict(silent) for rank in missing}


def _elsewhere(decided: Placement) -> set[int]:
    return set(range(decided.world_size)) - set(decided.ranks)


def _path(folder: Path, rank: int) -> Path:
    return folder / f".word.rank{rank}"


def _word(folder: Path, rank: int) -> str:
    try:
        return _path(folder, rank).read_text()
    except OSError:
        return ""
