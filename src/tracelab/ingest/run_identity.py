"""Which run a run folder is: two folders, each with a run.json of its own, are two runs, whatever they are called."""

import hashlib
import itertools
import json
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tracelab.ingest.discovery import RUN
from tracelab.readers.run_folder.coerce import coerce_value
from tracelab.run_names import legal_run_name
from tracelab.store import commit as stores

_LONGEST_HEADER = 1 << 16
_LONGEST_NAME = 100


@dataclass(frozen=True)
class Stored:
    """A source that is in the store already."""

    run: str
    source: str
    sha256: str
    size_bytes: int
    path: str


@dataclass(frozen=True)
class Began:
    """When and where a run began, which tells it from every other of its name."""

    started_at: datetime
    host: str | None


@dataclass(frozen=True)
class RunIdentity:
    """What a folder says: the name of its run, and, where it has a run.json, its hash and when the run began."""

    name: str
    sha256: str | None = None
    began: Began | None = None


def read_identity(folder: Path) -> RunIdentity | None:
    """What run.json says; where it is lost, the first of the files that begin with their run. None: no run folder."""
    for path in (folder / RUN, *sorted(folder.glob("*.jsonl"))):
        try:
            with path.open("rb") as file:
                text = file.read() if path.name == RUN else file.readline(_LONGEST_HEADER)
            content = json.loads(text)
        except (OSError, ValueError):
            continue
        if not isinstance(content, dict) or (path.name != RUN and "tracelab" not in content):
            continue
        run = content.get("run")
        if not isinstance(run, str) or not run:
            continue
        if path.name != RUN:
            return RunIdentity(legal_run_name(run))
        return RunIdentity(legal_run_name(run), hashlib.sha256(text).hexdigest(), _began(content))
    return None


def runs_of(
    folders: Mapping[Path, RunIdentity], stored: Sequence[Stored], store: Path, reserve: Callable[[str, Path], str]
) -> dict[Path, str]:
    """The run of every folder: the one that has it already, else a new one, reserved, of the name that it says.

    Where another folder's run has that name, a part of the path that differs stands before it.
    """
    known = [row for row in stored if Path(row.path).name == RUN]
    taken, owned = {row.run for row in stored}, {row.run for row in known}
    owners = [(row.run, Path(os.path.realpath(row.path)).parent) for row in known]
    chosen: dict[Path, str] = {}
    here: dict[Path, RunIdentity] = {}
    for folder, says in folders.items():
        alike = [(run, other) for run, other in owners if _is_called(run, says.name)]
        run = _stored_copy(says, known, store) or _copy(says, here, chosen)
        run = run or next((run for run, other in alike if other == folder), None)
        if run is None and says.sha256:
            others = [other for _, other in alike]
            run = reserve(says.name if says.name not in owned else _apart(says.name, folder, others, taken), folder)
            taken.add(run)
            owned.add(run)
            owners.append((run, folder))
        chosen[folder], here[folder] = run or says.name, says
    return chosen


def _is_called(run: str, name: str) -> bool:
    """Whether this is the name, or was made from it to tell runs of it apart."""
    return run == name or run.endswith(f"-{name}") or bool(re.fullmatch(re.escape(name[:95]) + r"-\d+", run))


def _stored_copy(says: RunIdentity, known: Sequence[Stored], store: Path) -> str | None:
    """The run in the store that began when and where the folder says: it is the folder, or a copy of it."""
    if says.sha256 is None:
        return None
    alike = [row for row in known if _is_called(row.run, says.name)]
    same = next((row.run for row in alike if row.sha256 == says.sha256), None)
    if same or says.began is None:
        return same
    return next((row.run for row in alike if _stored_began(store, row) == says.began), None)


def _copy(says: RunIdentity, others: Mapping[Path, RunIdentity], chosen: Mapping[Path, str]) -> str | None:
    """The same among the folders at hand."""
    for folder, other in others.items():
        if other == says or (says.began and (other.name, other.began) == (says.name, says.began)):
            return chosen[folder]
    return None


def _apart(name: str, folder: Path, others: Sequence[Path], taken: Collection[str]) -> str:
    """The name with the nearest part of the path before it that no other folder of that name has there."""
    theirs = [tuple(reversed(other.parts[1:])) for other in others]
    for depth, part in enumerate(reversed(folder.parts[1:])):
        found = f"{legal_run_name(part)}-{name}"
        unlike = all(depth >= len(parts) or parts[depth] != part for parts in theirs)
        if unlike and found not in taken and len(found) <= _LONGEST_NAME:
            return found
    return next(found for number in itertools.count(2) if (found := f"{name[:95]}-{number}") not in taken)


def _began(content: Mapping[str, object]) -> Began | None:
    started_at, host = coerce_value(content.get("started_at"), "timestamp"), coerce_value(content.get("host"), "text")
    if not isinstance(started_at, datetime):
        return None  # a cell of a sweep that has not run: nobody knows when it will
    return Began(started_at, host if isinstance(host, str) else None)


def _stored_began(store: Path, row: Stored) -> Began | None:
    """The same of a run.json that is in the store."""
    path = stores.table_file(store, "runs", row.run, row.source)
    try:
        rows = pq.read_table(path, columns=["started_at", "host"], partitioning=None).to_pylist()
    except (OSError, pa.ArrowException):
        return None
    return Began(**rows[0]) if rows and rows[0]["started_at"] else None
