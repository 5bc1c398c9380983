"""Make few large files of many small ones, and remove runs: each in one commit, beside readers and writers."""

import hashlib
import time
from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tracelab import schema
from tracelab.store import commit, rollups
from tracelab.store.commit import StagedPart, Store
from tracelab.store.commit_log import Part, PartKey, Snapshot
from tracelab.store.verification import DamagedStoreError, FileProblem, find_common_path
from tracelab.store.writer import TableWriter
from tracelab.table_types import Table

_LARGE_BYTES = 64 << 20
"""Parts of more stay as they are."""
_MOST_BYTES = 1 << 30
"""The size of the files that become one part; the rows of one source are in memory at a time."""
_UNLISTED_S = 24 * 3600.0
"""Files that no commit lists are deleted after a day: their writer may be alive until then."""
_TIMES = ("start_ns", "time_ns")


@dataclass(frozen=True)
class CompactedRun:
    """The parts and files of a run, before and after."""

    run: str
    parts_before: int
    files_before: int
    parts: int
    files: int


@dataclass(frozen=True)
class DroppedRun:
    """A run that is removed: its sources, files and their size."""

    run: str
    sources: int
    files: int
    size_bytes: int
    ingested_at_s: float


def compact(address: Path | str, run: str | None = None) -> list[CompactedRun]:
    """Make one part of the small parts of each run, or of one, and fold the log; return the runs that changed.

    Rows are sorted by rank and time. A run whose parts another process replaces meanwhile stays as it is. What was
    merged is deleted at the end, so that a session that was opened before has its files until then.
    """
    store = Store(address)
    merged: set[PartKey] = set()
    with ExitStack() as stagings:  # each notes which files it leaves, for the case that this process dies
        try:
            compacted = list(_compact_runs(store, run, stagings, merged))
        finally:
            commit.delete_removed(store, merged)
    with store.staging_folder() as staging:
        commit.fold_commits(store.files, staging, store.snapshot(), most=1)
    _delete_unlisted(store)
    return compacted


def _compact_runs(store: Store, run: str | None, stagings: ExitStack, merged: set[PartKey]) -> Iterator[CompactedRun]:
    """Compact runs; yield those that changed, and add the parts that were merged."""
    snapshot = store.snapshot()
    for name in sorted(snapshot.runs if run is None else {run}):
        parts = [part for part in snapshot.parts.values() if part.run == name]
        if sum(_merge(store, group, stagings, merged) for group in _group_parts(parts)):
            now = [part for part in store.snapshot().parts.values() if part.run == name]
            files = (sum(len(part.tables) for part in each) for each in (parts, now))
            yield CompactedRun(name, len(parts), next(files), len(now), next(files))


def list_runs(address: Path | str, runs: Set[str] | None, before_s: float | None) -> list[DroppedRun]:
    """Return some runs (None: all), without those that have a source that was ingested after a time."""
    return _describe_runs(_select_runs(Store(address).snapshot(), runs, before_s))


def drop(address: Path | str, runs: Set[str] | None, before_s: float | None) -> list[DroppedRun]:
    """Remove what `list_runs` returns, in one commit."""
    store = Store(address)
    removed: list[Part] = []

    def decide(snapshot: Snapshot) -> tuple[list[StagedPart], list[Part]] | None:
        removed[:] = _select_runs(snapshot, runs, before_s)
        return ([], removed) if removed else None

    with store.staging_folder() as staging:
        commit.transact(store, staging, decide)
    rollups.remove_runs(store.files, {part.run for part in removed})
    return _describe_runs(removed)


def _select_runs(snapshot: Snapshot, runs: Set[str] | None, before_s: float | None) -> list[Part]:
    parts = [part for part in snapshot.parts.values() if runs is None or part.run in runs]
    recent = {part.run for part in parts if before_s is not None and part.ingested_at_s >= before_s}
    return [part for part in parts if part.run not in recent]


def _describe_runs(parts: Iterable[Part]) -> list[DroppedRun]:
    by_run: dict[str, list[Part]] = {}
    for part in parts:
        by_run.setdefault(part.run, []).append(part)
    return [
        DroppedRun(
            run,
            sum(len(part.listed_sources) for part in listed),
            sum(len(part.tables) for part in listed),
            sum(part.size_bytes for part in listed),
            max(part.ingested_at_s for part in listed),
        )
        for run, listed in sorted(by_run.items())
    ]


def _group_parts(parts: Sequence[Part]) -> Iterator[list[Part]]:
    """Yield the small parts that become one, in groups of a bounded size."""
    group: list[Part] = []
    size_bytes = 0
    for part in sorted((part for part in parts if part.size_bytes < _LARGE_BYTES), key=_least_rank):
        if group and size_bytes + part.size_bytes > _MOST_BYTES:
            yield group
            group, size_bytes = [], 0
        group.append(part)
        size_bytes += part.size_bytes
    if len(group) > 1:
        yield group


def _least_rank(part: Part) -> tuple[int, str]:
    ranks = [source.rank for source in part.sources if source.rank is not None]
    return min(ranks, default=-1), part.name


def _merge(store: Store, parts: Sequence[Part], stagings: ExitStack, merged: set[PartKey]) -> bool:
    """Replace parts by one with their rows, and add them to `merged`; return whether they were all still there."""
    if len(parts) < 2:  # noqa: PLR2004
        return False
    keys = {part.key for part in parts}
    staging = stagings.enter_context(store.staging_folder())
    try:
        whole = _stage_merged(store, staging, parts)
    except FileNotFoundError:  # replaced meanwhile, or missing, which each opening reports
        return False

    def decide(snapshot: Snapshot) -> tuple[list[StagedPart], list[Part]] | None:
        return ([whole], list(parts)) if keys <= snapshot.parts.keys() else None

    is_merged = commit.transact(store, staging, decide, keeps_files=True) is not None
    if is_merged:
        merged |= keys
    return is_merged


def _stage_merged(store: Store, staging: Path, parts: Sequence[Part]) -> StagedPart:
    for table in schema.TABLES:
        holding = [part for part in parts if table.name in part.tables]
        if holding:
            _write_merged(store, staging / f"{table.name}.parquet", table, holding)
    sources = [each for part in parts for each in part.listed_sources]
    merged = commit.seal_part(staging, parts[0].run, sources)
    ingested_at_s = max(part.ingested_at_s for part in parts)
    return replace(merged, part=replace(merged.part, ingested_at_s=ingested_at_s))


def _write_merged(store: Store, path: Path, table: Table, parts: Sequence[Part]) -> None:
    """Write the rows of a table of some parts, sorted by rank and time within each source, sources by rank."""
    ordered = sorted(
        ((source, part) for part in parts for source in part.sources),
        key=lambda each: (-1 if each[0].rank is None else each[0].rank, each[0].source),
    )
    writer = TableWriter(path, table)
    opened: dict[PartKey, pa.Table] = {}
    left = {part.key: len(part.listed_sources) for part in parts}
    for source, part in ordered:
        if part.key not in opened:
            opened[part.key] = _read_table(store, part, table)
        rows = opened[part.key].filter(pc.equal(opened[part.key].column("source"), source.source))
        if rows.num_rows:
            writer.write(_sort(rows))
        left[part.key] -= 1
        if not left[part.key]:
            del opened[part.key]
    writer.close()


def _sort(rows: pa.Table) -> pa.Table:
    """Sort by rank and time; rows of one time keep their order."""
    keys = [(name, "ascending") for name in ("rank", *_TIMES) if name in rows.column_names]
    return rows.take(pc.sort_indices(rows, sort_keys=keys)) if keys else rows


def _read_table(store: Store, part: Part, table: Table) -> pa.Table:
    """Read a file, texts as dictionaries where it has such. Raises DamagedStoreError for one that was altered."""
    key = part.key_of(table.name)
    content = store.files.read(key)
    if hashlib.sha256(content).hexdigest() != part.files[table.name].sha256:
        place = store.address / key if isinstance(store.address, Path) else Path(key)
        problem = FileProblem(
            place, "altered (its SHA-256 differs from the recorded one)", find_common_path(part.traces)
        )
        raise DamagedStoreError(Path(store.address), [problem])
    with pq.ParquetFile(pa.BufferReader(content)) as file:
        coded = _list_dictionaries(file)
    with pq.ParquetFile(pa.BufferReader(content), read_dictionary=coded) as file:
        rows = file.read()
    missing = [column for column in table.columns if column.name not in rows.column_names]
    for column in missing:  # of an older minor version
        rows = rows.append_column(column.arrow, pa.nulls(rows.num_rows).cast(column.arrow.type))
    selected: pa.Table = rows.select(table.arrow.names)
    return selected


def _list_dictionaries(file: pq.ParquetFile) -> list[str]:
    """Return the names of text columns that are written as dictionaries."""
    if not file.num_row_groups:
        return []
    group = file.metadata.row_group(0)
    columns = (group.column(place) for place in range(group.num_columns))
    texts = {field.name for field in file.schema_arrow if pa.types.is_string(field.type)}
    return [
        column.path_in_schema
        for column in columns
        if column.path_in_schema in texts and "RLE_DICTIONARY" in column.encodings
    ]


def _delete_unlisted(store: Store) -> None:
    """Delete files of tables that no commit has listed for a day: their writer died at a URL, or on another machine."""
    before_s = time.time() - _UNLISTED_S
    tables: Collection[str] = schema.BY_NAME.keys()
    old = [file.key for table in tables for file in store.files.walk(table) if file.modified_s < before_s]
    snapshot = store.snapshot()
    if snapshot.lost:
        return
    listed = {key for part in snapshot.parts.values() for key in part.keys}
    store.files.delete([key for key in old if key not in listed])
