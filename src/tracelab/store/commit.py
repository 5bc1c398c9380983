"""Commit staged sources to a store: their files are placed first, and become visible with an entry of the log."""

import dataclasses
import hashlib
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from tracelab import schema, temp_folders
from tracelab.store import commit_log
from tracelab.store import files as store_files
from tracelab.store.commit_log import Change, Part, PartKey, Reservation, Snapshot, StoredSource, TableFile
from tracelab.store.files import LocalFiles, StoreFiles

COMPRESSION = "zstd"

Row = dict[str, object]
"""The columns of a row of `sources`."""

_PARALLEL_BYTES = 4 << 20
"""Files of less are hashed on one thread: to start others would take longer."""
_TOGETHER = "many"
"""The names of parts with several sources begin so."""
_MOST_COMMITS = 64
"""After so many commits, a writer writes a checkpoint: to open a store, these are read one by one."""
_KEPT_S = 3600.0
"""How long a commit stays that a checkpoint has: writers that are suspended for less find its number taken."""


class Store:
    """A store in a folder or at a URL, and what it holds as far as this process has read."""

    def __init__(self, address: Path | str) -> None:
        self.address = address
        self.files = _open_files(address)
        self._snapshot: Snapshot | None = None
        self._reading = threading.Lock()

    def snapshot(self) -> Snapshot:
        """Return what the store holds now. Raises StoreError for a store of another schema version."""
        with self._reading:
            if self._snapshot is None:
                self._snapshot = commit_log.open_snapshot(self.address, self.files)
            self._snapshot = commit_log.advance(self.files, self._snapshot)
            return self._snapshot.copy()

    def adopt(self, snapshot: Snapshot) -> None:
        """Take a later snapshot, which may have a checkpoint, as what this process has read."""
        with self._reading:
            if self._snapshot is None or snapshot.number >= self._snapshot.number:
                self._snapshot = snapshot.copy()

    @property
    def disk_folder(self) -> Path:
        """The folder that writers stage files in: the store's own, or for a URL a temporary one of this process."""
        return self.address if isinstance(self.address, Path) else temp_folders.process_folder()

    @contextmanager
    def staging_folder(self) -> Iterator[Path]:
        """Create a folder for what one writer writes, and remove it at the end."""
        with store_files.staging_folder(self.disk_folder) as folder:
            yield folder


def _open_files(address: Path | str) -> StoreFiles:
    """Return the files of a store in a folder or at a URL."""
    if isinstance(address, Path):
        return LocalFiles(address)
    from tracelab.store import remote

    return remote.BucketFiles(address)


@dataclass(frozen=True)
class Staged:
    """Staged sources of one run, with a file `<table>.parquet` for each table, and their rows in `sources`.

    `known` has what planning needs of a source beyond its row: see `StoredSource`.
    """

    folder: Path
    rows: Sequence[Row]
    known: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    once: bool = False
    """Whether a source is not stored where another run has it: its run was chosen, not requested."""
    superseded: Sequence[str] = ()
    """Sources that these replace."""

    @property
    def run(self) -> str:
        """The run."""
        return str(self.rows[0]["run"])

    @property
    def versions(self) -> dict[str, str]:
        """The version of the reader by source."""
        return {str(row["source"]): str(row["reader_version"]) for row in self.rows}


def commit(store: Store, staged: Staged, *, replace: bool = False) -> dict[str, str]:
    """Commit staged sources and remove what they replace: one commit, after which all are visible.

    Without `replace`, returns the sources that are stored already, by the same reader, and their runs; if there are
    any, nothing is changed.
    """
    replaced = {*staged.versions, *staged.superseded}
    taken: dict[str, str] = {}
    remainders: dict[PartKey, StagedPart | None] = {}
    new: list[StagedPart] = []

    def decide(snapshot: Snapshot) -> tuple[list[StagedPart], list[Part]] | None:
        taken.clear()
        taken.update({} if replace else _find_stored(snapshot, staged))
        if taken:
            return None
        new[:] = new or [_stage_part(staged.folder, staged.rows, staged.known)]
        holding = [
            part for source in sorted(replaced) for part in snapshot.parts_with(source) if part.run == staged.run
        ]
        removes = list({part.key: part for part in holding}.values())
        for part in removes:
            if part.key not in remainders:
                remainders[part.key] = _split_off(store.files, staged.folder, part, replaced)
        return [*new, *(each for part in removes if (each := remainders[part.key]))], removes

    transact(store, staged.folder, decide)
    return taken


@dataclass(frozen=True)
class StagedPart:
    """A part whose files `<table>.parquet` are in a staging folder."""

    part: Part
    folder: Path


Decide: TypeAlias = Callable[[Snapshot], "tuple[list[StagedPart], list[Part]] | None"]
"""Returns the parts to add and those to remove, for what a store holds; None where there is nothing to do."""


def transact(store: Store, staging: Path, decide: Decide, *, keeps_files: bool = False) -> Snapshot | None:
    """Add and remove parts in one commit, as `decide` returns them; return what the store holds then.

    `decide` is called again where another commit comes first. What is placed without a commit, and what is removed by
    one, is deleted at the end, or by the next ingest if this process dies. With `keeps_files`, what is removed is left
    to `delete_removed`; until then, keep the staging folder.
    """
    files = store.files
    noted: dict[PartKey, list[str]] = {}
    placed: set[PartKey] = set()
    removed: set[PartKey] = set()
    committed: Snapshot | None = None

    def place(snapshot: Snapshot) -> Change | None:
        decided = decide(snapshot)
        if decided is None:
            return None
        adds, removes = decided
        noted.update({each.part.key: each.part.keys for each in adds})
        removed.update(part.key for part in removes)
        noted.update({part.key: [part.key_of(table) for table in schema.BY_NAME] for part in removes})
        store_files.note_placed(staging, [(*key, keys) for key, keys in noted.items()])
        for each in adds:
            if each.part.key not in placed:
                placed.add(each.part.key)
                files.place({each.folder / f"{table}.parquet": each.part.key_of(table) for table in each.part.tables})
        return Change([each.part for each in adds], [part.key for part in removes])

    try:
        committed = commit_log.append(files, staging, store.snapshot(), place)
    finally:
        deleted = {key: keys for key, keys in noted.items() if not (keeps_files and key in removed)}
        if deleted:
            _delete_unless_held(files, deleted, committed or commit_log.read_snapshot(files))
    if committed is not None:
        fold_commits(files, staging, committed)
        store.adopt(committed)
    return committed


def delete_removed(store: Store, keys: Collection[PartKey]) -> None:
    """Delete the files of removed parts, but for those that the store lists again."""
    if keys:
        noted = {key: [commit_log.table_key(table, *key) for table in schema.BY_NAME] for key in keys}
        _delete_unless_held(store.files, noted, commit_log.read_snapshot(store.files))


def remove_part(store: Store, staging: Path, key: PartKey) -> None:
    """Remove a part, if it is still there."""
    transact(store, staging, lambda snapshot: ([], [snapshot.parts[key]]) if key in snapshot.parts else None)


def reserve(store: Store, staging: Path, decide: Callable[[Snapshot], Sequence[Reservation]]) -> None:
    """Reserve the run names that `decide` chooses for what a store holds; none is nothing to do."""
    commit_log.append(
        store.files, staging, store.snapshot(), lambda now: Change(reserves=chosen) if (chosen := decide(now)) else None
    )


def remove_leftovers(store: Path) -> int:
    """Remove what killed writers left: their staging folders, and files that they placed and did not commit.

    Returns the number of files and folders removed. What a living writer has stays.
    """
    removed = 0
    for folder in store_files.take_abandoned(store):
        files = LocalFiles(store)
        if noted := {(run, name): keys for run, name, keys in store_files.read_placed(folder)}:
            removed += _delete_unless_held(files, noted, commit_log.read_snapshot(files))
        shutil.rmtree(folder, ignore_errors=True)
        removed += 1
    return removed


def void_lost_commits(store: Store, staging: Path) -> None:
    """Replace commits that cannot be read by empty ones, once all sources that no commit lists are stored again."""
    snapshot = store.snapshot()
    if not snapshot.lost or not isinstance(store.address, Path):
        return
    from tracelab.store.verification import read_unlisted

    stored = {(part.run, source) for part in snapshot.parts.values() for source in part.source_names}
    unlisted = read_unlisted(store.address, snapshot)
    if all((run, source) in stored for (run, _), rows in unlisted.items() for source, _ in rows):
        for key in snapshot.lost:
            commit_log.void_entry(store.files, staging, key)
        for run, name in unlisted:
            store.files.delete([commit_log.table_key(table, run, name) for table in schema.BY_NAME])


def fold_commits(files: StoreFiles, staging: Path, snapshot: Snapshot, most: int = _MOST_COMMITS) -> None:
    """Write a checkpoint where the last is many commits old, and delete the commits that none needs any more."""
    since = snapshot.number - (snapshot.checkpoint.number if snapshot.checkpoint else 0)
    if since < most or snapshot.lost:
        return
    try:
        rows = read_source_rows(files, snapshot)
    except (OSError, pa.ArrowException):  # damaged, which each opening reports
        return
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, compression=COMPRESSION, store_schema=False)
    commit_log.write_checkpoint(files, staging, snapshot, sink.getvalue().to_pybytes())
    files.delete(commit_log.list_folded(files, time.time() - _KEPT_S))


def read_source_rows(files: StoreFiles, snapshot: Snapshot) -> pa.Table:
    """Read all rows of `sources`, with the name of each one's part."""
    tables = [schema.BY_NAME["sources"].empty().append_column("part", pa.array([], pa.string()))]
    folded: Collection[PartKey] = ()
    if snapshot.checkpoint is not None:
        folded = snapshot.checkpoint.parts
        rows = _read_parquet(files, snapshot.checkpoint.rows_key)
        tables.append(_select_rows(rows, "part", [name for _, name in snapshot.parts]))
    for part in snapshot.parts.values():
        if part.key not in folded:
            rows = _read_parquet(files, part.key_of("sources"))
            tables.append(rows.append_column("part", pa.array([part.name] * len(rows), pa.string())))
    return pa.concat_tables(tables, promote_options="default")


def _find_stored(snapshot: Snapshot, staged: Staged) -> dict[str, str]:
    """Return the staged sources that are stored already, and their runs."""
    stored: dict[str, str] = {}
    for source, version in staged.versions.items():
        for part in snapshot.parts_with(source):
            is_same = part.run == staged.run and version == part.version_of(source)
            if is_same or (staged.once and part.run != staged.run):
                stored[source] = part.run
    return stored


def _stage_part(folder: Path, rows: Sequence[Row], known: Mapping[str, Mapping[str, object]]) -> StagedPart:
    """Complete the staged files of a part by that of `sources`, and flush them to disk."""
    now = datetime.now(UTC)
    stamped = [row | {"schema_version": schema.SCHEMA_VERSION, "ingested_at": now} for row in rows]
    table = schema.BY_NAME["sources"].rows(stamped)
    pq.write_table(table, folder / "sources.parquet", compression=COMPRESSION, store_schema=False)
    sources = [describe_source(row, known.get(str(row["source"]), {})) for row in rows]
    return seal_part(folder, str(rows[0]["run"]), sources)


def seal_part(folder: Path, run: str, sources: Sequence[Mapping[str, Any]]) -> StagedPart:
    """Return a part of the staged files of some sources, which are flushed to disk."""
    label = sources[0]["source"] if len(sources) == 1 else _TOGETHER
    files = _seal_files(sorted(folder.glob("*.parquet")))
    name = f"{label}-{uuid.uuid4().hex[:12]}"
    return StagedPart(Part.of((run, name), (schema.SCHEMA_VERSION, time.time()), files, sources), folder)


def describe_source(row: Row, known: Mapping[str, object]) -> dict[str, Any]:
    """Return what the log has of a source: see `StoredSource`."""
    names = {each.name for each in fields(StoredSource)} - {"run", "part"}
    described = {name: value for name, value in {**row, **known}.items() if name in names and value is not None}
    return {"path": "", "reader_version": ""} | described


def _select_rows(rows: pa.Table, column: str, values: Sequence[str]) -> pa.Table:
    """Return the rows that have one of these values in a column."""
    import pyarrow.compute as pc  # takes 40 ms, which the first file of a store need not wait for

    return rows.filter(pc.is_in(rows.column(column), pa.array(values)))


def _split_off(files: StoreFiles, staging: Path, part: Part, sources: Collection[str]) -> StagedPart | None:
    """Stage a part of the other sources of a part, of which some are removed; None where it has no others."""
    kept = [each for each in part.listed_sources if each["source"] not in sources]
    if not kept:
        return None
    folder = staging / f"rest-{part.name}"
    folder.mkdir(exist_ok=True)
    names = [each["source"] for each in kept]
    for table in part.tables:
        rows = _select_rows(_read_parquet(files, part.key_of(table)), "source", names)
        if rows.num_rows:
            pq.write_table(rows, folder / f"{table}.parquet", compression=COMPRESSION, store_schema=False)
    rest = seal_part(folder, part.run, kept)
    as_before = dataclasses.replace(rest.part, schema_version=part.schema_version, ingested_at_s=part.ingested_at_s)
    return StagedPart(as_before, folder)


def _read_parquet(files: StoreFiles, key: str) -> pa.Table:
    table: pa.Table = pq.read_table(pa.BufferReader(files.read(key)))
    return table


def _delete_unless_held(files: StoreFiles, noted: Mapping[PartKey, Sequence[str]], snapshot: Snapshot) -> int:
    return files.delete([key for part, keys in noted.items() if part not in snapshot.parts for key in keys])


def _seal_files(paths: Sequence[Path]) -> dict[str, TableFile]:
    """Flush `<table>.parquet` files to disk; return size and hash of each, by table."""
    if sum(path.stat().st_size for path in paths) < _PARALLEL_BYTES:
        files = list(map(_seal_file, paths))
    else:
        with ThreadPoolExecutor(len(paths)) as pool:  # the disk flushes together what waits at the same time
            files = list(pool.map(_seal_file, paths))
    return {path.stem: file for path, file in zip(paths, files, strict=True)}


def _seal_file(path: Path) -> TableFile:
    store_files.sync_to_disk(path)
    return TableFile(path.stat().st_size, hash_file(path))


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file, in hex."""
    with path.open("rb", buffering=0) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
