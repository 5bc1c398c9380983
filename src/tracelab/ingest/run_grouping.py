"""Group files into runs and name the runs, before anything is stored."""

import itertools
import math
import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

from tracelab.errors import ReaderCrashError
from tracelab.foreign_text import escape_path
from tracelab.ingest.discovery import MEMBER_MARK, Candidate, hash_source, map_files, original_path, resolve_original
from tracelab.ingest.run_identity import RunNames, assign_folder_runs, is_run_json, read_identity
from tracelab.readers.base import report_crashes
from tracelab.run_names import legal_run_name
from tracelab.store.commit import Store, reserve
from tracelab.store.commit_log import Reservation, Snapshot, StoredSource

_SUFFIXES = re.compile(
    r"(\.(pt|trace|json|gz|zst|tar|tgz|zip|sqlite|csv|txt|log|nvprof|nvvp|ncu-repz?|nsys-rep|qdrep)|_pqtdir)+$",
    re.IGNORECASE,
)

_HANDLER_NAME = re.compile(
    r"(?P<process>.+(?<!rank)(?<!worker)(?<!step)(?<!epoch)_\d+)\.\d{13,19}\.pt\.trace\.json(\.gz|\.zst)?",
    re.IGNORECASE,
)
"""How torch.profiler.tensorboard_trace_handler names files: host, process id and time; one file a profiler cycle."""

_RANK_NAME = re.compile(r"(worker|rank)[-_]?\d+(\.\d{13,19})?\.pt\.trace\.json(\.gz|\.zst)?", re.IGNORECASE)
"""Names that the handler gives files where `worker_name` is only a rank: the run is then named after the folder."""

_ONLY_RANK = re.compile(r"(worker|rank)[-_]?\d+", re.IGNORECASE)
"""A name that is only a rank: others of its job may come later, so that the run is named after the folder."""


@dataclass(frozen=True)
class RunAssignment:
    """A file and the run it will be stored in; with its hash, where grouping needed it."""

    candidate: Candidate
    run: str
    sha256: str | None
    superseded: tuple[str, ...] = ()
    """Stored sources that are earlier states of this file: a run folder may be ingested while the run continues."""
    repeats: str | None = None
    """Name and run of a file that holds a recording of the same rank at the same time."""
    stored_part: str | None = None
    """The name of the part of the store that holds this source already."""
    stored_version: str | None = None
    """The version of the reader that stored it."""
    is_stored_together: bool = False
    """Whether that part holds other sources, too."""
    in_run_folder: bool = False
    once: bool = False
    """Whether grouping chose its run: where another ingest stores the content in another run first, it stays there."""


_Kin: TypeAlias = tuple[Path, str, int | None]
"""Folder, format and world size, which the ranks of one run have in common."""


@dataclass(frozen=True)
class _Recording:
    """The files of one process, and when it was recorded."""

    start_ns: int
    end_ns: int
    files: list[Candidate]

    @property
    def rank(self) -> int | None:
        return self.files[0].probe.rank

    @property
    def host(self) -> str | None:
        return self.files[0].probe.host

    @property
    def name_without_digits(self) -> str:
        return _without_digits(self.files[0].path.name)

    def overlaps(self, other: "_Recording") -> bool:
        return _overlap((self.start_ns, self.end_ns), (other.start_ns, other.end_ns))

    def may_join(self, other: "_Recording") -> bool:
        return self.rank != other.rank and self.overlaps(other)


def assign_runs(candidates: Sequence[Candidate], store: Store, staging: Path, run: str | None) -> list[RunAssignment]:
    """Assign a run to every file: the one requested, the one that has it already, its run.json's, or a new one.

    Ranks join the run of the ranks of their folder that earlier ingests stored. Of files with equal content only the
    first is assigned, or the first in each run folder. New names are reserved in the store as long as the staging
    folder exists: another ingest at the same time uses them for the same folder only.
    """
    files = PlannedFiles(candidates)
    assignments: list[RunAssignment] = []

    def plan(snapshot: Snapshot) -> Sequence[Reservation]:
        reserved = RunNames(store, snapshot, staging)
        assignments[:] = _plan(files, store, snapshot, reserved, run)
        return reserved.describe_new({item.candidate: item.run for item in assignments}, read_span_ns)

    reserve(store, staging, plan)
    return assignments


class PlannedFiles:
    """The files of an ingest, with what is computed once, although the plan may be made several times."""

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        self.candidates = list(candidates)
        self.folders = {item.path: _folder(item) for item in candidates}
        places = {self.folders[item.path]: item.path.parent for item in candidates}
        self.identities = {folder: identity for folder, place in places.items() if (identity := read_identity(place))}
        self.hashes: dict[Path, str] = {}

    def hash_possible_copies(self, snapshot: Snapshot) -> None:
        """Hash those files that can equal another one: there is one of the same, or of unknown, size."""
        counts = Counter(item.size_bytes for item in self.candidates)
        sizes = {size for part in snapshot.parts.values() for size in part.sizes}
        paths = [
            item.path
            for item in self.candidates
            if item.path not in self.hashes
            and (item.size_bytes in sizes or counts[item.size_bytes] > 1 or None in sizes)
        ]
        self.hashes |= dict(zip(paths, map_files(hash_source, paths), strict=True))


def _plan(
    files: PlannedFiles, store: Store, snapshot: Snapshot, reserved: RunNames, run: str | None
) -> list[RunAssignment]:
    files.hash_possible_copies(snapshot)
    hashes, folders = files.hashes, files.folders
    stored = _select_stored(
        snapshot, {escape_path(folder) for folder in folders.values()}, has_run_folders=bool(files.identities)
    )
    if run:
        folder_runs = dict.fromkeys(files.identities, run)
    else:
        run_jsons = [row for row in stored if is_run_json(row)]
        folder_runs = assign_folder_runs(files.identities, run_jsons, store, snapshot.runs, reserved.reserve)
    distinct = _drop_copies(files, folder_runs)
    runs = dict.fromkeys((item.path for item in distinct), run) if run else {}
    if not run:
        runs = _choose_runs(files, distinct, snapshot, stored, folder_runs, reserved)
    by_place = {(row.run, row.path): row for row in stored}
    repeated = _find_repeated_ranks(distinct, runs)

    def superseded(item: Candidate) -> tuple[str, ...]:
        """The source of an earlier state of the file, in a run folder: files grow there, and runs are repeated."""
        row = by_place.get((runs[item.path], escape_path(original_path(_absolute(item.path)))))
        if row is None or folder_runs.get(folders[item.path]) != row.run or row.sha256 == hashes.get(item.path):
            return ()
        return (row.source,)

    def assign(item: Candidate) -> RunAssignment:
        name, sha256 = runs[item.path], hashes.get(item.path)
        holding = [part for part in snapshot.parts_with(sha256[:16]) if part.run == name] if sha256 else []
        part = holding[0] if holding else None
        in_run_folder = folders[item.path] in folder_runs
        return RunAssignment(
            item,
            name,
            sha256,
            superseded(item),
            repeated.get(item.path),
            stored_part=part.name if part else None,
            stored_version=part.version_of(sha256[:16]) if part and sha256 else None,
            is_stored_together=part is not None and len(part.listed_sources) > 1,
            in_run_folder=in_run_folder,
            once=run is None and not in_run_folder,
        )

    return [assign(item) for item in distinct]


def _select_stored(snapshot: Snapshot, folders: set[str], *, has_run_folders: bool) -> list[StoredSource]:
    """Return the stored sources whose files are in some folders, and for run folders each run.json."""
    parts = [
        part
        for part in snapshot.parts.values()
        if not folders.isdisjoint(part.folders) or (has_run_folders and "runs" in part.tables)
    ]
    return [
        source
        for part in parts
        for source in part.sources
        if source.folder in folders or (has_run_folders and is_run_json(source))
    ]


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(path))  # noqa: PTH100 - links keep their names


def _folder(item: Candidate) -> Path:
    return resolve_original(item.path).parent


def _drop_copies(files: PlannedFiles, folder_runs: dict[Path, str]) -> list[Candidate]:
    """Keep the first file of each content; a file in the folders of two runs belongs to both."""
    first: dict[object, Candidate] = {}
    for item in files.candidates:
        sha256 = files.hashes.get(item.path)
        first.setdefault((sha256, folder_runs.get(files.folders[item.path])) if sha256 else item.path, item)
    return list(first.values())


def _choose_runs(
    files: PlannedFiles,
    candidates: Sequence[Candidate],
    snapshot: Snapshot,
    stored: Sequence[StoredSource],
    folder_runs: dict[Path, str],
    reserved: RunNames,
) -> dict[Path, str]:
    """Return the run of every file; new names are reserved for the folder of their files."""
    process_runs = _read_process_runs(stored)
    runs = {}
    for item in candidates:
        source = files.hashes.get(item.path, "")[:16]
        stored_runs = {part.run for part in snapshot.parts_with(source)}
        folder_run = folder_runs.get(files.folders[item.path])
        if stored_runs and (folder_run is None or folder_run in stored_runs):
            runs[item.path] = folder_run or min(stored_runs)
        elif folder_run is None and (process := _process(item)) in process_runs:
            runs[item.path] = process_runs[process]
    groups = group_ranks(item for item in candidates if item.path not in runs)
    declared = [folder_runs.get(files.folders[group[0].path]) or _declared_run(group) for group in groups]
    earlier = [*stored, *reserved.list_sources()]
    joined = [name or find_run_of_ranks(group, earlier) for group, name in zip(groups, declared, strict=True)]
    unnamed = [group for group, name in zip(groups, joined, strict=True) if name is None]
    used_names = snapshot.runs | {name for name in joined if name}
    new_names = iter(choose_names(unnamed, used_names))
    for group, name in zip(groups, joined, strict=True):
        run = name or reserved.reserve(next(new_names), files.folders[group[0].path])
        runs |= dict.fromkeys((item.path for item in group), run)
    return runs


def find_run_of_ranks(group: Sequence[Candidate], earlier: Sequence[StoredSource]) -> str | None:
    """Return the one run that lacks the ranks of a group and has others of their job, recorded at the same time.

    Ranks on other hosts, whose clocks may differ, are of one job where their files are named alike.
    """
    ranks = {item.probe.rank for item in group}
    if None in ranks:
        return None
    folder, kind, world_size = _kin(group[0])
    kin = [
        row
        for row in earlier
        if (row.folder, row.format, row.world_size) == (escape_path(folder), kind, world_size) and row.rank is not None
    ]
    fitting = []
    for run in dict.fromkeys(row.run for row in kin):
        rows = [row for row in kin if row.run == run]
        placed = [row for row in rows if row.span_ns is not None or row.host is not None]
        is_free = not ranks.intersection(row.rank for row in rows)
        if is_free and placed and all(_recorded_together(item, row) for item in group for row in placed):
            fitting.append(run)
    return fitting[0] if len(fitting) == 1 else None


def _recorded_together(item: Candidate, row: StoredSource) -> bool:
    """Return whether a file and a stored source, ranks of one world size in one folder, are of one job."""
    name = Path(row.path).name
    if item.probe.host and row.host and item.probe.host != row.host:
        return row.world_size is not None and _without_digits(name) == _without_digits(item.path.name)
    span = _span_ns([item])
    return span is not None and row.span_ns is not None and _overlap(span, row.span_ns)


def _handler_process(name: str) -> str | None:
    """Return host and process id in a file's name, where the trace handler of torch.profiler chose it."""
    match = _HANDLER_NAME.fullmatch(name)
    return match["process"] if match else None


def _process(item: Candidate) -> tuple[Path, str | None]:
    """Return what the files of one process share: their folder, and host and process id in their names."""
    return _folder(item), _handler_process(item.path.name)


def _read_process_runs(stored: Sequence[StoredSource]) -> dict[tuple[Path, str | None], str]:
    """Return the run of every process whose files are in the store, where that is one run."""
    runs: dict[tuple[Path, str | None], set[str]] = {}
    for row in stored:
        if row.path and (process := _handler_process(Path(row.path).name)):
            runs.setdefault((Path(row.folder), process), set()).add(row.run)
    return {process: min(names) for process, names in runs.items() if len(names) == 1}


def group_ranks(candidates: Iterable[Candidate]) -> list[list[Candidate]]:
    """Group the files that are ranks of one run, or cycles of one process; every other file is a group of its own.

    Ranks of one run lie in one folder, have one format and world size, differ in rank, and overlap in time: from the
    first to the last cycle that the trace handler of torch.profiler wrote. A second recording of a rank is another run.
    Clocks of hosts may differ by more than a recording takes: files named alike that have each rank of a job once are
    one run, too.
    """
    similar: dict[_Kin, dict[object, list[Candidate]]] = {}
    for candidate in candidates:
        probe = candidate.probe
        _, process = _process(candidate)
        key = process and (process, probe.rank)
        similar.setdefault(_kin(candidate), {}).setdefault(key or candidate.path, []).append(candidate)
    groups: list[list[Candidate]] = []
    for processes in similar.values():
        ranked = [files for files in processes.values() if files[0].probe.rank is not None]
        groups += [files for files in processes.values() if files[0].probe.rank is None]
        groups += ranked if len(ranked) == 1 else _group_by_time(ranked)
    return sorted(groups, key=lambda group: str(group[0].path))


def _kin(item: Candidate) -> _Kin:
    """Return what the ranks of one run have in common."""
    return _folder(item), item.probe.format, item.probe.world_size


def _group_by_time(processes: list[list[Candidate]]) -> list[list[Candidate]]:
    """Join files of processes with different ranks whose recordings overlap."""
    untimed = [_Recording(0, 0, files) for files in processes]
    if untimed and not any(recording.host for recording in untimed) and _is_whole_job(untimed):
        return [[item for files in processes for item in files]]
    spans = [(_span_ns(files), files) for files in processes]
    timed = [_Recording(*span, files) for span, files in spans if span is not None]
    timed.sort(key=lambda recording: (recording.start_ns, recording.end_ns, str(recording.files[0].path)))
    if timed and len(timed) == len(spans) and _is_whole_job(timed):
        return [[item for recording in timed for item in recording.files]]
    is_second = _find_second_recordings(timed)
    groups = [
        group
        for kind in (False, True)
        for group in _join_overlapping([each for each, second in zip(timed, is_second, strict=True) if second == kind])
    ]
    return [files for span, files in spans if span is None] + groups


def _is_whole_job(recordings: list[_Recording]) -> bool:
    """Return whether recordings are each rank of a job once, named alike, and at one time by the clock of each host."""
    ranks = sorted(recording.rank for recording in recordings if recording.rank is not None)
    named = {recording.name_without_digits for recording in recordings}
    by_host: dict[str, list[_Recording]] = {}
    for recording in recordings:
        if recording.host is not None:
            by_host.setdefault(recording.host, []).append(recording)
    return (
        ranks == list(range(recordings[0].files[0].probe.world_size or 0))
        and (len(named) == 1 or all(_handler_process(recording.files[0].path.name) for recording in recordings))
        and all(_Group(group).overlaps_all for group in by_host.values())
    )


def _join_overlapping(recordings: list[_Recording]) -> list[list[Candidate]]:
    """Group recordings, ordered by start: those of a group overlap each other and have different ranks."""
    groups: list[_Group] = []
    for recording in recordings:
        group = next((group for group in groups if group.may_take(recording)), None)
        if group is None:
            groups.append(_Group([recording]))
        else:
            group.add(recording)
    return [[item for recording in group.recordings for item in recording.files] for group in groups]


class _Group:
    """Recordings, and the time that all of them share: where there is one, all overlap each other."""

    def __init__(self, recordings: list[_Recording]) -> None:
        self.recordings: list[_Recording] = []
        self._ranks: set[int | None] = set()
        self._start_ns, self._end_ns = -math.inf, math.inf
        for recording in recordings:
            self.add(recording)

    @property
    def overlaps_all(self) -> bool:
        """Whether all recordings overlap each other."""
        return self._start_ns <= self._end_ns

    def add(self, recording: _Recording) -> None:
        """Add a recording, and narrow the shared time to it."""
        self.recordings.append(recording)
        self._ranks.add(recording.rank)
        self._start_ns = max(self._start_ns, recording.start_ns)
        self._end_ns = min(self._end_ns, recording.end_ns)

    def may_take(self, recording: _Recording) -> bool:
        """Whether a recording is of a rank that the group lacks, and overlaps all of its recordings."""
        shared_from, shared_to = max(self._start_ns, recording.start_ns), min(self._end_ns, recording.end_ns)
        return recording.rank not in self._ranks and shared_from <= shared_to


def _find_second_recordings(recordings: list[_Recording]) -> list[bool]:
    """Return which recordings are extra ones: of a rank that has more than most ranks, those that fit the others least.

    A recording fits other ranks that it overlaps, and those whose files have the same name but for digits.
    """
    by_rank: dict[int | None, list[int]] = {}
    for at, recording in enumerate(recordings):
        by_rank.setdefault(recording.rank, []).append(at)
    counts = sorted(map(len, by_rank.values()))
    names = Counter(recording.name_without_digits for recording in recordings)
    is_second = [False] * len(recordings)
    for places in by_rank.values():
        usual = counts[(len(counts) - 1) // 2]
        if len(places) > usual:
            fits = {at: _measure_fit(recordings[at], recordings, names) for at in places}
            least = sorted(fits.values(), reverse=True)[usual - 1]
            for at, fit in fits.items():
                is_second[at] = fit < least
    return is_second


def _measure_fit(recording: _Recording, others: list[_Recording], names: Counter[str]) -> tuple[int, int]:
    return sum(map(recording.may_join, others)), names[recording.name_without_digits]


def _span_ns(files: list[Candidate]) -> tuple[int, int] | None:
    """Return when the recordings of a process begin and end; None where any is unknown."""
    spans = [read_span_ns(item) for item in files]
    known = [span for span in spans if span is not None]
    if len(known) < len(spans):
        return None
    return min(start for start, _ in known), max(end for _, end in known)


@lru_cache(maxsize=100_000)
def read_span_ns(item: Candidate) -> tuple[int, int] | None:
    """Return when a recording begins and ends; None where its reader crashes. Read once for each state of a file."""
    with suppress(ReaderCrashError), report_crashes(item.reader, item.path):
        return item.reader.time_span_ns(item.path)
    return None


def _find_repeated_ranks(candidates: list[Candidate], runs: dict[Path, str]) -> dict[Path, str]:
    """Return, for each file that records a rank at the same time as a file of a larger run, which file that is."""
    sizes = Counter(runs.values())
    by_rank: dict[object, list[Candidate]] = {}
    for item in candidates:
        if item.probe.rank is not None:
            by_rank.setdefault((_kin(item), item.probe.rank), []).append(item)
    repeated: dict[Path, str] = {}
    for same_rank in by_rank.values():
        if len({runs[item.path] for item in same_rank}) == 1:
            continue
        spans = {item.path: _span_ns([item]) for item in same_rank}
        for item, other in itertools.permutations(same_rank, 2):
            span, other_span = spans[item.path], spans[other.path]
            is_smaller = sizes[runs[item.path]] < sizes[runs[other.path]]
            if is_smaller and span and other_span and _overlap(span, other_span):
                name = escape_path(Path(other.path.name))
                repeated.setdefault(item.path, f"{name} of run {runs[other.path]}")
    return repeated


def _without_digits(name: str) -> str:
    return re.sub(r"\d+", "", name)


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]


def _declared_run(group: list[Candidate]) -> str | None:
    """Return the run that the files themselves name."""
    run = next((item.probe.run for item in group if item.probe.run), None)
    return legal_run_name(run) if run else None


def choose_names(groups: list[list[Candidate]], used_names: Collection[str]) -> list[str]:
    """Return a name for every group: the shortest end of its path that no other run has."""
    paths = [_naming_parts(group) for group in groups]
    chosen: list[str] = []
    for index, parts in enumerate(paths):
        others = [other for position, other in enumerate(paths) if position != index]
        chosen.append(_choose_name(parts, others, {*used_names, *chosen}))
    return chosen


def _choose_name(parts: tuple[str, ...], other_parts: list[tuple[str, ...]], used_names: set[str]) -> str:
    for length in range(1, len(parts) + 1):
        name = legal_run_name("-".join(parts[-length:]))
        shared = any(legal_run_name("-".join(other[-length:])) == name for other in other_parts)
        if not shared and name not in used_names:
            return name
    base = legal_run_name(parts[-1])[:95]  # several runs of one folder, such as profiler cycles
    return next(name for number in itertools.count(1) if (name := f"{base}-{number}") not in used_names)


def _naming_parts(group: list[Candidate]) -> tuple[str, ...]:
    """Return the parts of the path that names a run: its file's, or its folder's where it can have several files."""
    path = resolve_original(group[0].path)
    path = Path(*(_SUFFIXES.sub("", part[:-1]) if part.endswith(MEMBER_MARK) else part for part in path.parts))
    is_one_of_several = (group[0].probe.world_size or 0) > 1 and _ONLY_RANK.fullmatch(_SUFFIXES.sub("", path.name))
    if len(group) > 1 or _handler_process(path.name) or _RANK_NAME.fullmatch(path.name) or is_one_of_several:
        return path.parent.parts[1:] or ("run",)
    return (*path.parts[1:-1], _SUFFIXES.sub("", path.name) or path.name)
