"""Rendezvous of externally launched ranks (torchrun, srun) through the run folder."""

import contextlib
import json
import secrets
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from tracelab.collect.process.launch import GRACE_S, Interrupted
from tracelab.collect.run_folder import RUN_JSON, read_run_json, write_atomically, write_json
from tracelab.errors import TracelabError

RANK_TIMEOUT_S = 120.0
"""Time that ranks started elsewhere have to appear, and to write their outcome."""
SHUTDOWN_TIMEOUT_S = GRACE_S + 5.0
"""Time they have once this process received a signal: torchrun and SLURM kill it after 30 s."""
_POLL_S = 0.2
OUTCOMES, WORDS = ".outcome.rank*.json", ".word.rank*"
"""Files in a run folder that ranks exchange; they are gone when it has ended."""


class RanksHere(Protocol):
    """The ranks that this process starts, of a job of some size."""

    @property
    def ranks(self) -> tuple[int, ...]:
        """Ranks that this process starts."""
        ...

    @property
    def world_size(self) -> int:
        """Number of ranks of the job."""
        ...


def gather_ranks(folder: Path, placement: RanksHere, description: dict[str, Any]) -> dict[str, Any]:
    """Write run.json as rank 0, with the random word that every other rank wrote to the folder.

    A rank that finds its own word there knows that run.json is of its launch: an earlier one may look the same.
    """
    try:
        write_json(folder / RUN_JSON, description)
    except OSError as error:
        raise TracelabError(f"{folder}: cannot be written: {error.strerror}; choose another --out") from error
    missing = _elsewhere(placement)
    words: dict[str, str] = {}
    until = time.monotonic() + RANK_TIMEOUT_S
    while missing and time.monotonic() < until:
        words |= {str(rank): word for rank in missing if (word := _read_word(folder, rank))}
        missing -= set(map(int, words))
        if missing:
            time.sleep(_POLL_S)
    if missing:
        raise TracelabError(
            f"{folder}: rank {', '.join(map(str, sorted(missing)))} did not start within {RANK_TIMEOUT_S:.0f} s; "
            "check that all nodes share this folder"
        )
    if words:
        description = description | {"launch": description["launch"] | {"words": words}}
        write_json(folder / RUN_JSON, description)
    return description


def join_rank_zero(folder: Path, placement: RanksHere) -> dict[str, Any]:
    """Wait for run.json of this launch, which rank 0 writes, and return it."""
    rank, word = placement.ranks[0], secrets.token_hex(8)
    until = time.monotonic() + RANK_TIMEOUT_S
    try:
        while time.monotonic() < until:
            run = read_run_json(folder) or {}
            launch = run.get("launch") or {}
            if isinstance(launch, dict) and launch.get("words", {}).get(str(rank)) == word:
                return run
            if (
                run.get("status", "not_run") == "not_run" and _read_word(folder, rank) != word
            ):  # rank 0 empties the folder
                with contextlib.suppress(OSError):
                    write_atomically(_word_path(folder, rank), word.encode())
            time.sleep(_POLL_S)
    finally:
        _word_path(folder, rank).unlink(missing_ok=True)
    raise TracelabError(
        f"{folder}: rank 0 did not start within {RANK_TIMEOUT_S:.0f} s; check that all nodes share this folder"
    )


def write_outcome(folder: Path, rank: int, outcome: dict[str, Any]) -> None:
    """Write the outcome of a rank for rank 0 to collect."""
    write_json(folder / OUTCOMES.replace("*", str(rank)), outcome)


def collect_outcomes(
    folder: Path, placement: RanksHere, signals: Sequence[Interrupted] = ()
) -> dict[int, dict[str, Any]]:
    """Read the outcomes of ranks that other processes started; one that writes none has failed.

    After the first signal to this process, waits only SHUTDOWN_TIMEOUT_S more.
    """
    missing = _elsewhere(placement)
    outcomes: dict[int, dict[str, Any]] = {}
    until = time.monotonic() + RANK_TIMEOUT_S
    while missing and time.monotonic() < min([until, *(each.at_s + SHUTDOWN_TIMEOUT_S for each in signals)]):
        for rank in sorted(missing):
            path = folder / OUTCOMES.replace("*", str(rank))
            with contextlib.suppress(OSError, ValueError):
                outcomes[rank] = json.loads(path.read_bytes())
                path.unlink()
        missing -= set(outcomes)
        if missing:
            time.sleep(_POLL_S)
    silent = {"status": "failed", "error": "its process ended without writing an outcome", "vanished": True}
    return outcomes | {rank: dict(silent) for rank in missing}


def _elsewhere(placement: RanksHere) -> set[int]:
    return set(range(placement.world_size)) - set(placement.ranks)


def _word_path(folder: Path, rank: int) -> Path:
    return folder / WORDS.replace("*", str(rank))


def _read_word(folder: Path, rank: int) -> str:
    try:
        return _word_path(folder, rank).read_text()
    except OSError:
        return ""
