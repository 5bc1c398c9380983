"""Which run a file belongs to, and what the run is called: decided before anything of the file is stored."""

import json
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from tracelab.readers.base import Glimpse, Reader
from tracelab.store import legal_run_name

_SUFFIXES = re.compile(r"(\.(pt|trace|json|gz|sqlite|csv|txt|log|nvprof|nvvp|ncu-rep|nsys-rep))+$", re.IGNORECASE)


@dataclass(frozen=True)
class Candidate:
    """A file that holds profiler data, and what its ends tell."""

    path: Path
    reader: Reader
    glimpse: Glimpse
    size_bytes: int


@dataclass(frozen=True)
class Stored:
    """A source that is in the store already."""

    run: str
    source: str
    sha256: str
    path: str
    size_bytes: int


def stored_sources(store: Path) -> list[Stored]:
    """All sources of a store."""
    columns = ["run", "source", "sha256", "path", "size_bytes"]
    return [
        Stored(**row)
        for path in sorted(store.glob("sources/run=*/*.parquet"))
        for row in pq.read_table(path, columns=columns, partitioning=None).to_pylist()
    ]


def groups(candidates: Iterable[Candidate]) -> list[list[Candidate]]:
    """Files that are ranks of one run stand together; every other file alone.

    They are that only when they stand in one folder, have one format and world size, different ranks, and were
    recorded at the same time.
    """
    alike: dict[tuple[Path, str, int | None], list[Candidate]] = {}
    found: list[list[Candidate]] = []
    for candidate in candidates:
        if candidate.glimpse.rank is None:
            found.append([candidate])
            continue
        key = (candidate.path.resolve().parent, candidate.glimpse.format, candidate.glimpse.world_size)
        alike.setdefault(key, []).append(candidate)
    for members in alike.values():
        found += [members] if len(members) == 1 else _recorded_together(members)
    return sorted(found, key=lambda group: str(group[0].path))


def _recorded_together(members: list[Candidate]) -> list[list[Candidate]]:
    spans = [(member.reader.span(member.path), member) for member in members]
    found = [[member] for span, member in spans if span is None]
    together: list[Candidate] = []
    latest_start = earliest_end = 0
    timed = [(span, member) for span, member in spans if span is not None]
    for (start, end), member in sorted(timed, key=lambda pair: (pair[0], str(pair[1].path))):
        ranks = {other.glimpse.rank for other in together}
        if together and start <= earliest_end and latest_start <= end and member.glimpse.rank not in ranks:
            together.append(member)
            latest_start, earliest_end = max(latest_start, start), min(earliest_end, end)
            continue
        if together:
            found.append(together)
        together, latest_start, earliest_end = [member], start, end
    if together:
        found.append(together)
    return found


def declared_name(group: list[Candidate]) -> str | None:
    """The name that a run.json beside the files gives, if there is one."""
    described = group[0].path.resolve().parent / "run.json"
    try:
        content = json.loads(described.read_bytes())
    except (OSError, ValueError):
        return None
    run = content.get("run") if isinstance(content, dict) else None
    return legal_run_name(run) if isinstance(run, str) and run else None


def names(found: list[list[Candidate]], taken: Collection[str]) -> list[str]:
    """A name for every group: the shortest end of its path that no other run has."""
    paths = [_path_parts(group) for group in found]
    chosen: list[str] = []
    for at, parts in enumerate(paths):
        others = [other for place, other in enumerate(paths) if place != at]
        chosen.append(_name(parts, others, {*taken, *chosen}))
    return chosen


def _name(parts: tuple[str, ...], others: list[tuple[str, ...]], taken: set[str]) -> str:
    name = ""
    for length in range(1, len(parts) + 1):
        name = legal_run_name("-".join(parts[-length:]))
        alike = any(legal_run_name("-".join(other[-length:])) == name for other in others)
        if not alike and name not in taken:
            return name
    numbered = (f"{name[:95]}-{number}" for number in range(2, 1_000_000))
    return next(candidate for candidate in numbered if candidate not in taken)


def _path_parts(group: list[Candidate]) -> tuple[str, ...]:
    """The path a run is named by: its file's, or its folder's where it has several ranks."""
    path = group[0].path.resolve()
    if len(group) > 1:
        return path.parent.parts[1:] or ("run",)
    return (*path.parts[1:-1], _SUFFIXES.sub("", path.name) or path.name)
