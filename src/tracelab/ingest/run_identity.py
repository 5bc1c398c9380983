"""Identify the run of a run folder, and reserve names of new runs.

Two folders with different run.json files are two runs, even under one name. Names are reserved in the log of the
store, so that ingests at the same time never use one name for two runs.
"""

import hashlib
import itertools
import json
import os
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tracelab.foreign_text import escape_path
from tracelab.ingest.discovery import RUN_JSON, Candidate, resolve_original
from tracelab.readers.decompress import is_compressed
from tracelab.run_names import legal_run_name
from tracelab.store import commit as stores
from tracelab.store import files as store_files
from tracelab.store.commit import Store
from tracelab.store.commit_log import RESERVED_S, Reservation, Snapshot, StoredSource, table_key

_MAX_HEADER_BYTES = 1 << 16
_MAX_RUN_JSON_BYTES = 16 << 20
_MAX_NAME_LENGTH = 100


@dataclass(frozen=True)
class RunStart:
    """When and where a run started, which distinguishes it from all others of its name."""

    started_at: datetime
    host: str | None


@dataclass(frozen=True)
class RunIdentity:
    """The name of a folder's run and, where the folder has a run.json, the file's hash and the start of the run."""

    name: str
    sha256: str | None = None
    start: RunStart | None = None


def read_identity(folder: Path) -> RunIdentity | None:
    """Read run.json, or where it is lost the first JSON Lines file that names its run; None for other folders."""
    for path in (folder / RUN_JSON, *sorted(folder.glob("*.jsonl"))):
        try:
            with path.open("rb") as file:
                text = file.read(_MAX_RUN_JSON_BYTES) if path.name == RUN_JSON else file.readline(_MAX_HEADER_BYTES)
            content = json.loads(text)
        except (OSError, ValueError):
            continue
        if not isinstance(content, dict) or (path.name != RUN_JSON and "tracelab" not in content):
            continue
        run = content.get("run")
        if not isinstance(run, str) or not run:
            continue
        if path.name != RUN_JSON:
            return RunIdentity(legal_run_name(run))
        return RunIdentity(legal_run_name(run), hashlib.sha256(text).hexdigest(), _parse_start(content))
    return None


def assign_folder_runs(
    folders: Mapping[Path, RunIdentity],
    stored: Sequence[StoredSource],
    store: stores.Store,
    used_names: Collection[str],
    reserve: Callable[[str, Path], str],
) -> dict[Path, str]:
    """Return the run of every folder: the one that has it already, else a new, reserved one with the folder's name.

    Where the run of another folder has that name, the first part of the path that differs precedes it.
    """
    run_jsons = [row for row in stored if is_run_json(row)]
    used_names, owned = set(used_names), {row.run for row in run_jsons}
    owners = [(row.run, Path(row.folder)) for row in run_jsons]
    assigned: dict[Path, str] = {}
    seen: dict[Path, RunIdentity] = {}
    for folder, identity in folders.items():
        namesakes = [(run, other) for run, other in owners if _derives_from(run, identity.name)]
        run = _find_stored_copy(identity, stored, run_jsons, store) or _find_copy(identity, seen, assigned)
        run = run or next((run for run, other in namesakes if other == folder), None)
        if run is None and identity.sha256:
            other_folders = [other for _, other in namesakes]
            is_free = identity.name not in owned
            run = reserve(
                identity.name if is_free else _distinguish(identity.name, folder, other_folders, used_names), folder
            )
            used_names.add(run)
            owned.add(run)
            owners.append((run, folder))
        assigned[folder], seen[folder] = run or identity.name, identity
    return assigned


def is_run_json(row: StoredSource) -> bool:
    """Return whether a source is the file that describes a run folder."""
    return row.path.endswith(f"/{RUN_JSON}")


def _derives_from(run: str, name: str) -> bool:
    """Whether a run has this name, or one derived from it to distinguish runs."""
    return run == name or run.endswith(f"-{name}") or bool(re.fullmatch(re.escape(name[:95]) + r"-\d+", run))


def _find_stored_copy(
    identity: RunIdentity, stored: Sequence[StoredSource], run_jsons: Sequence[StoredSource], store: stores.Store
) -> str | None:
    """Return the stored run with the same start: it comes from this folder, or from a copy of it."""
    if identity.sha256 is None:
        return None
    source = identity.sha256[:16]
    same = next((row.run for row in stored if row.source == source and _derives_from(row.run, identity.name)), None)
    if same or identity.start is None:
        return same
    namesakes = [row for row in run_jsons if _derives_from(row.run, identity.name)]
    return next((row.run for row in namesakes if _read_stored_start(store, row) == identity.start), None)


def _find_copy(
    identity: RunIdentity, other_folders: Mapping[Path, RunIdentity], assigned: Mapping[Path, str]
) -> str | None:
    """Return the run of a folder in this ingest that is the same run."""
    for folder, other in other_folders.items():
        if other == identity or (identity.start and (other.name, other.start) == (identity.name, identity.start)):
            return assigned[folder]
    return None


def _distinguish(name: str, folder: Path, other_folders: Sequence[Path], used_names: Collection[str]) -> str:
    """Put the nearest part of the path before the name that no other folder with that name has in its place."""
    other_parts = [tuple(reversed(other.parts[1:])) for other in other_folders]
    for depth, part in enumerate(reversed(folder.parts[1:])):
        longer = f"{legal_run_name(part)}-{name}"
        differs = all(depth >= len(parts) or parts[depth] != part for parts in other_parts)
        if differs and longer not in used_names and len(longer) <= _MAX_NAME_LENGTH:
            return longer
    return next(numbered for number in itertools.count(2) if (numbered := f"{name[:95]}-{number}") not in used_names)


def _parse_start(content: Mapping[str, object]) -> RunStart | None:
    from tracelab.readers.run_folder.coerce import coerce_value

    started_at, host = coerce_value(content.get("started_at"), "timestamp"), coerce_value(content.get("host"), "text")
    if not isinstance(started_at, datetime):
        return None  # a cell of a sweep that has not run yet
    return RunStart(started_at, host if isinstance(host, str) else None)


def _read_stored_start(store: stores.Store, row: StoredSource) -> RunStart | None:
    """Return the start of a run whose run.json is in the store."""
    try:
        content = store.files.read(table_key("runs", row.run, row.part))
        rows = pq.read_table(pa.BufferReader(content), columns=["source", "started_at", "host"]).to_pylist()
    except (OSError, pa.ArrowException):
        return None
    starts = (RunStart(each["started_at"], each["host"]) for each in rows if each["source"] == row.source)
    return next((start for start in starts if start.started_at), None)


_TIMED_RANKS = 8
"""Ranks of a run whose times are read when it is reserved: enough to see whether others belong to it."""
_RESERVED_AT_URL_S = 3600.0
"""How long a name is reserved at a URL, where the end of an ingest cannot be seen."""


class RunNames:
    """The names of runs that ingests have reserved; the owner of those of this ingest is its staging folder."""

    def __init__(self, store: Store, snapshot: Snapshot, staging: Path) -> None:
        self._store, self._owner = store, staging.name
        self._reserved = [each for each in snapshot.reservations if self._is_live(each)]
        self._new: dict[str, Reservation] = {}

    def reserve(self, run: str, folder: Path) -> str:
        """Return the name, or a numbered one if another ingest holds it for another folder."""
        mark = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
        others = {each.run for each in (*self._reserved, *self._new.values()) if each.folder != mark}
        name = next(name for name in _number_names(run) if name not in others)
        self._new.setdefault(name, Reservation(name, mark, self._owner, time.time()))
        return name

    def list_sources(self) -> list[StoredSource]:
        """Return the ranks that other ingests are about to store."""
        return [source for each in self._reserved if each.owner != self._owner for source in each.sources]

    def describe_new(
        self, runs: Mapping[Candidate, str], read_span_ns: Callable[[Candidate], tuple[int, int] | None]
    ) -> list[Reservation]:
        """Return the new reservations, with their planned ranks: other ingests add ranks of the same job to these."""
        by_run: dict[str, list[StoredSource]] = {}
        for item, run in runs.items():
            if run in self._new and item.probe.rank is not None:
                planned = by_run.setdefault(run, [])
                is_timed = len(planned) < _TIMED_RANKS and not is_compressed(item.path)  # which decompresses all of it
                planned.append(_describe_planned(item, run, read_span_ns(item) if is_timed else None))
        return [
            Reservation(each.run, each.folder, each.owner, each.at_s, by_run.get(each.run, ()))
            for each in self._new.values()
        ]

    def _is_live(self, reservation: Reservation) -> bool:
        if not isinstance(self._store.address, Path):
            return time.time() - reservation.at_s < _RESERVED_AT_URL_S
        if time.time() - reservation.at_s > RESERVED_S:
            return False
        return store_files.is_held(self._store.address / store_files.STAGING / reservation.owner)


def _describe_planned(item: Candidate, run: str, span_ns: tuple[int, int] | None) -> StoredSource:
    return StoredSource(
        run,
        "",
        "",
        path=escape_path(item.path.absolute()),
        folder=escape_path(resolve_original(item.path).parent),
        format=item.probe.format,
        rank=item.probe.rank,
        world_size=item.probe.world_size,
        host=item.probe.host,
        span_ns=span_ns,
    )


def _number_names(run: str) -> Iterator[str]:
    yield run
    yield from (f"{run[:95]}-{number}" for number in itertools.count(2))
