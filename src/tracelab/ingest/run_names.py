"""Reserve names of new runs in the log of a store: two ingests at a time do not use one name for two runs."""

import hashlib
import itertools
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tracelab.foreign_text import escape_path
from tracelab.ingest.copies import resolve_original
from tracelab.ingest.discovery import Candidate
from tracelab.readers.decompress import is_compressed
from tracelab.store import files as store_files
from tracelab.store.commit import Store
from tracelab.store.commit_log import RESERVED_S, Reservation, Snapshot, StoredSource

_TIMED_RANKS = 8
"""Ranks of a run whose times are read when it is reserved: enough to see whether others belong to it."""
_RESERVED_AT_URL_S = 3600.0
"""How long a name is reserved at a URL, where the end of an ingest cannot be seen."""


class RunNames:
    """The names that ingests have reserved, this one among them; its owner is the staging folder of this ingest."""

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
        """Return what to reserve, with the ranks that are planned: those of other ingests join them."""
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
