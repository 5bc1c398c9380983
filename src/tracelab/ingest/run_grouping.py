"""Which run a file belongs to, and what the run is called: decided before anything of the file is stored."""

import itertools
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tracelab.errors import StoreError, escape_path
from tracelab.ingest import run_identity
from tracelab.ingest.discovery import Candidate
from tracelab.ingest.hashing import hashed
from tracelab.ingest.run_identity import Stored
from tracelab.run_names import legal_run_name
from tracelab.store import commit as stores

_SUFFIXES = re.compile(
    r"(\.(pt|trace|json|gz|sqlite|csv|txt|log|nvprof|nvvp|ncu-repz?|nsys-rep|qdrep)|_pqtdir)+$", re.IGNORECASE
)


@dataclass(frozen=True)
class RunAssignment:
    """A file and the run it will be stored in; its hash, where that had to be known for it."""

    candidate: Candidate
    run: str
    sha256: str | None
    superseded: tuple[str, ...] = ()
    """Sources of the run that were this very file before it changed: a run folder is ingested while the run goes on."""


@contextmanager
def assign_runs(candidates: list[Candidate], store: Path, run: str | None) -> Iterator[list[RunAssignment]]:
    """Every file with its run: the one asked for, the one that has it already, its run.json's, or a new one.

    Of files with the same content only the first is placed, or the first of each run folder. New names are reserved
    until the end of the context, so that another ingest at the same time cannot give them to something else.
    """
    with ExitStack() as reserved:
        with stores.lock_store(store):
            stored = _stored_sources(store)
            hashes = _hashes(candidates, {row.size_bytes for row in stored})
            reserve = reserved.enter_context(stores.reserve_run_names(store))
            around = dict.fromkeys(map(_folder, candidates))
            folders = {folder: says for folder in around if (says := run_identity.read_identity(folder))}
            homes = dict.fromkeys(folders, run) if run else run_identity.runs_of(folders, stored, store, reserve)
            different = _first_of_each(candidates, hashes, homes)
            if run:
                chosen = {item.path: run for item in different}
            else:
                chosen = _chosen(different, stored, hashes, homes, reserve)
        by_place = {(row.run, _place(row.path)): row for row in stored}
        yield [
            RunAssignment(
                item,
                chosen[item.path],
                hashes.get(item.path),
                _superseded(by_place.get((chosen[item.path], _place(escape_path(item.path)))), item, hashes, homes),
            )
            for item in different
        ]


def _superseded(
    row: Stored | None, item: Candidate, hashes: dict[Path, str], homes: dict[Path, str]
) -> tuple[str, ...]:
    """What is stored of an earlier state of the file, in a run folder: there files grow, and a run is done again."""
    if row is None or homes.get(_folder(item)) != row.run or row.sha256 == hashes.get(item.path):
        return ()
    return (row.source,)


def _place(path: str) -> str:
    return os.path.abspath(path)  # noqa: PTH100 - of text, and links stay as they are called


def _folder(item: Candidate) -> Path:
    return item.path.resolve().parent


def _hashes(candidates: list[Candidate], sizes: set[int]) -> dict[Path, str]:
    """The hashes of those files that can be the same as another: there is one of the same size."""
    counts = Counter(item.size_bytes for item in candidates)
    return {
        item.path: hashed(item.path) for item in candidates if item.size_bytes in sizes or counts[item.size_bytes] > 1
    }


def _first_of_each(candidates: list[Candidate], hashes: dict[Path, str], homes: dict[Path, str]) -> list[Candidate]:
    """Of the files of one content the first; what lies in the folders of two runs is of both."""
    first: dict[object, Candidate] = {}
    for item in candidates:
        sha256 = hashes.get(item.path)
        first.setdefault((sha256, homes.get(_folder(item))) if sha256 else item.path, item)
    return list(first.values())


def _chosen(
    candidates: list[Candidate],
    stored: list[Stored],
    hashes: dict[Path, str],
    homes: dict[Path, str],
    reserve: Callable[[str, Path], str],
) -> dict[Path, str]:
    """The run of every file; a new name is reserved for the folder of its files."""
    having: dict[str, set[str]] = {}
    for row in stored:
        having.setdefault(row.sha256, set()).add(row.run)
    chosen = {}
    for item in candidates:
        have_it, named = having.get(hashes.get(item.path, ""), set()), homes.get(_folder(item))
        if have_it and (named is None or named in have_it):
            chosen[item.path] = named or min(have_it)
    found = groups(item for item in candidates if item.path not in chosen)
    declared = [homes.get(_folder(group[0])) or _own_name(group) for group in found]
    nameless = [group for group, name in zip(found, declared, strict=True) if name is None]
    taken = {row.run for row in stored} | {name for name in declared if name}
    fresh = iter(names(nameless, taken))
    for group, name in zip(found, declared, strict=True):
        run = name or reserve(next(fresh), _folder(group[0]))
        chosen |= dict.fromkeys((item.path for item in group), run)
    return chosen


def _stored_sources(store: Path) -> list[Stored]:
    """All sources of a store. Raises StoreError where one of its files is damaged."""
    rows = []
    for path in sorted(store.glob("sources/run=*/*.parquet")):
        try:
            table = pq.read_table(path, columns=["run", "source", "sha256", "size_bytes", "path"], partitioning=None)
        except (OSError, pa.ArrowException) as error:
            raise StoreError(f"{path}: cannot be read; remove this file and ingest its trace again") from error
        rows += [Stored(**row) for row in table.to_pylist()]
    return rows


def groups(candidates: Iterable[Candidate]) -> list[list[Candidate]]:
    """Files that are ranks of one run stand together; every other file alone.

    They are that only when they stand in one folder, have one format and world size, different ranks, and were
    recorded at the same time.
    """
    alike: dict[tuple[Path, str, int | None], list[Candidate]] = {}
    found: list[list[Candidate]] = []
    for candidate in candidates:
        if candidate.probe.rank is None:
            found.append([candidate])
            continue
        key = (candidate.path.resolve().parent, candidate.probe.format, candidate.probe.world_size)
        alike.setdefault(key, []).append(candidate)
    for members in alike.values():
        found += [members] if len(members) == 1 else _recorded_together(members)
    return sorted(found, key=lambda group: str(group[0].path))


def _recorded_together(members: list[Candidate]) -> list[list[Candidate]]:
    spans = [(member.reader.time_span_ns(member.path), member) for member in members]
    found = [[member] for span, member in spans if span is None]
    together: list[Candidate] = []
    latest_start = earliest_end = 0
    timed = [(span, member) for span, member in spans if span is not None]
    for (start, end), member in sorted(timed, key=lambda pair: (pair[0], str(pair[1].path))):
        ranks = {other.probe.rank for other in together}
        if together and start <= earliest_end and latest_start <= end and member.probe.rank not in ranks:
            together.append(member)
            latest_start, earliest_end = max(latest_start, start), min(earliest_end, end)
            continue
        if together:
            found.append(together)
        together, latest_start, earliest_end = [member], start, end
    if together:
        found.append(together)
    return found


def _own_name(group: list[Candidate]) -> str | None:
    """The run that the files themselves say they are of."""
    run = next((item.probe.run for item in group if item.probe.run), None)
    return legal_run_name(run) if run else None


def names(found: list[list[Candidate]], taken: Collection[str]) -> list[str]:
    """A name for every group: the shortest end of its path that no other run has."""
    paths = [_path_parts(group) for group in found]
    chosen: list[str] = []
    for at, parts in enumerate(paths):
        others = [other for place, other in enumerate(paths) if place != at]
        chosen.append(_name(parts, others, {*taken, *chosen}))
    return chosen


def _name(parts: tuple[str, ...], others: list[tuple[str, ...]], taken: set[str]) -> str:
    for length in range(1, len(parts) + 1):
        name = legal_run_name("-".join(parts[-length:]))
        alike = any(legal_run_name("-".join(other[-length:])) == name for other in others)
        if not alike and name not in taken:
            return name
    base = legal_run_name(parts[-1])[:95]  # several runs of one folder: profiler cycles, say
    return next(name for number in itertools.count(1) if (name := f"{base}-{number}") not in taken)


def _path_parts(group: list[Candidate]) -> tuple[str, ...]:
    """The path a run is named by: its file's, or its folder's where it has several ranks."""
    path = group[0].path.resolve()
    if len(group) > 1:
        return path.parent.parts[1:] or ("run",)
    return (*path.parts[1:-1], _SUFFIXES.sub("", path.name) or path.name)
