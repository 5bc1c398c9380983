"""Commit staged sources to the store; a source becomes visible with its row in `sources`, written last."""

import errno
import hashlib
import itertools
import json
import os
import shutil
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock, Timeout

from tracelab import schema
from tracelab.errors import StoreError
from tracelab.store import integrity
from tracelab.store.integrity import TableFile
from tracelab.store.verification import parse_row

COMPRESSION = "zstd"

_PARALLEL_BYTES = 4 << 20
"""Files of less are hashed on one thread: to start others would take longer."""
_STAGING = ".staging"
_LOCK = ".lock"
_LOCK_SUFFIX = ".lock"


def table_file(store: Path, table: str, run: str, source: str) -> Path:
    """Return the path of the Parquet file of one table, run and source."""
    return store / table / f"run={run}" / f"{source}.parquet"


def committed_reader_version(store: Path, run: str, source: str) -> str | None:
    """Return the version of the reader that stored this source in this run; None if no undamaged row has it.

    Raises StoreError for a store of another schema version.
    """
    path = table_file(store, "sources", run, source)
    try:
        row = parse_row(path.read_bytes())
    except PermissionError:
        raise
    except (OSError, integrity.DamagedRowError):
        return None
    if str(row["schema_version"]).split(".")[0] != schema.SCHEMA_VERSION.split(".")[0]:
        raise StoreError(
            f"{store}: written with schema {row['schema_version']}, this tracelab has {schema.SCHEMA_VERSION}; "
            "re-ingest the traces into a new store"
        )
    return str(row["reader_version"])


@contextmanager
def lock_store(store: Path) -> Iterator[None]:
    """Hold the store's lock: no other ingest commits or chooses run names meanwhile."""
    with FileLock(store / _LOCK):
        yield


@contextmanager
def reserve_run_names(store: Path) -> Iterator[Callable[[str, Path], str]]:
    """Reserve run names until the end of the context. The caller holds `lock_store` on entry and for each reservation.

    Yields `reserve(run, owner)`, which returns the name, or a numbered one if another ingest holds it. Ingests of the
    same owner, the folder of the files, share a name: they may be the same ingest run twice.
    """
    staging_root = store / _STAGING
    staging_root.mkdir(parents=True, exist_ok=True)
    token = uuid.uuid4().hex
    reserved: dict[str, set[str]] = {}
    for other in staging_root.glob(f"*{_LOCK_SUFFIX}"):
        if (marks := list(staging_root.glob(f"run=*@*.{other.stem}"))) and _is_held(other):
            for path in marks:
                name, _, mark = path.stem.removeprefix("run=").rpartition("@")
                reserved.setdefault(name, set()).add(mark)
    held: list[Path] = []

    def reserve(run: str, owner: Path) -> str:
        mark = hashlib.sha256(os.fsencode(owner)).hexdigest()[:16]
        name = next(name for name in _candidate_names(run) if reserved.setdefault(name, {mark}) == {mark})
        held.append(staging_root / f"run={name}@{mark}.{token}")
        held[-1].touch()
        return name

    lock_path = staging_root / f"{token}{_LOCK_SUFFIX}"  # one lock for all names: open files are limited
    with FileLock(lock_path):
        try:
            yield reserve
        finally:
            for path in (*held, lock_path):
                path.unlink(missing_ok=True)


def _candidate_names(run: str) -> Iterator[str]:
    yield run
    yield from (f"{run[:95]}-{number}" for number in itertools.count(2))


def _is_held(lock_path: Path) -> bool:
    try:
        with FileLock(lock_path, timeout=0):
            return False
    except Timeout:
        return True


@contextmanager
def staging_folder(store: Path) -> Iterator[Path]:
    """Create a folder for one source, outside every table's glob; remove it at the end."""
    root = store / _STAGING
    root.mkdir(parents=True, exist_ok=True)
    folder = root / uuid.uuid4().hex
    with FileLock(folder.with_suffix(_LOCK_SUFFIX)):
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            folder.with_suffix(_LOCK_SUFFIX).unlink(missing_ok=True)


def commit(store: Path, folder: Path, row: dict[str, object], *, replace: bool, superseded: Sequence[str] = ()) -> bool:
    """Move a staged source into place, its row in `sources` last, and remove the sources that it supersedes first.

    Its mark follows the row, and a removal starts with the mark: a mark without a row shows that the row was lost.

    `folder` holds `<table>.parquet` files, `row` the columns of `sources`. Without `replace`, returns False and changes
    nothing if another process stored the same source with the same reader in the meantime.
    """
    run, source = str(row["run"]), str(row["source"])
    files = _hash_files(sorted(folder.glob("*.parquet")))  # without the lock, which other ingests wait for
    staged = {table: folder / f"{table}.parquet" for table in files}
    for path in staged.values():
        _sync_to_disk(path)
    with FileLock(store / _LOCK):
        if not replace and committed_reader_version(store, run, source) == row["reader_version"]:
            return False
        # What needs space or rights precedes the removal: its failure must not cost the source that is replaced.
        staged["sources"] = folder / "sources"
        stamped = row | {"schema_version": schema.SCHEMA_VERSION, "ingested_at": datetime.now(UTC)}
        _write_row(staged["sources"], stamped, files)
        _sync_to_disk(staged["sources"])
        targets = {table: table_file(store, table, run, source) for table in staged}
        staged["mark"], targets["mark"] = folder / "mark", integrity.mark_of(targets["sources"])
        staged["mark"].write_bytes(os.fsencode(str(row.get("path") or "")))
        for target in targets.values():
            target.parent.mkdir(parents=True, exist_ok=True)
            if not os.access(target.parent, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(target.parent))
        for old in superseded:
            _remove_source(store, run, old)
        _remove_source(store, run, source, keep=files)  # replaced below, so that no query misses a file it has listed
        for table, path in staged.items():
            if targets[table].is_dir():
                _remove(targets[table])
            path.replace(targets[table])
    return True


def remove_leftovers(store: Path) -> int:
    """Remove leftovers of killed ingests: unlocked staging folders, and files of sources that were never committed.

    Returns the number of files and folders removed. Running ingests hold locks, so theirs stay.
    """
    removed = 0
    for lock_path in (store / _STAGING).glob(f"*{_LOCK_SUFFIX}"):
        try:
            with FileLock(lock_path, timeout=0):
                folder = lock_path.with_suffix("")
                removed += folder.is_dir()
                shutil.rmtree(folder, ignore_errors=True)
                for path in (*lock_path.parent.glob(f"run=*.{lock_path.stem}"), lock_path):
                    path.unlink(missing_ok=True)
        except Timeout:
            continue
    if not store.is_dir():
        return removed
    with FileLock(store / _LOCK):
        _mark_rows(store)
        committed = {(path.parent.name, path.stem) for path in integrity.list_rows(store)}
        for table in schema.TABLES:
            for path in store.glob(f"{table.name}/run=*/*.parquet"):
                if (path.parent.name, path.stem) not in committed:
                    _remove(path)
                    removed += 1
    return removed


def _mark_rows(store: Path) -> None:
    """Mark the sources that have a row with a manifest but no mark: their ingest was killed before it wrote one."""
    for path in integrity.list_files(store, "sources"):
        mark = integrity.mark_of(path)
        if mark.exists():
            continue
        try:
            content = path.read_bytes()
            manifest, row = integrity.parse_manifest(content), parse_row(content)
            integrity.check_owner(manifest, path)
        except (OSError, integrity.DamagedRowError):
            continue
        if manifest is not None:
            mark.parent.mkdir(exist_ok=True)
            mark.write_bytes(os.fsencode(str(row["path"] or "")))


def _hash_files(paths: Sequence[Path]) -> dict[str, TableFile]:
    """Return size and hash of `<table>.parquet` files, by table."""
    sizes = [path.stat().st_size for path in paths]
    if sum(sizes) < _PARALLEL_BYTES:
        hashes = list(map(_hash_file, paths))
    else:
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            hashes = list(pool.map(_hash_file, paths))
    names = [path.stem for path in paths]
    return {name: TableFile(size, sha256) for name, size, sha256 in zip(names, sizes, hashes, strict=True)}


def _hash_file(path: Path) -> str:
    with path.open("rb", buffering=0) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write_row(path: Path, row: dict[str, object], files: Mapping[str, TableFile]) -> None:
    """Write the row of a source with its manifest and its seal: the file's own hash, taken with a blank seal."""
    table = schema.BY_NAME["sources"].rows([row])
    listed = {"schema_version": row["schema_version"], "run": row["run"], "source": row["source"], "files": files}
    sink = pa.BufferOutputStream()
    # store_schema would repeat the metadata in another form
    with pq.ParquetWriter(sink, table.schema, compression=COMPRESSION, store_schema=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({integrity.FILES_KEY: json.dumps(listed, separators=(",", ":"))})
        writer.add_key_value_metadata({integrity.SEAL_KEY: integrity.BLANK_SEAL.decode()})
    content = bytearray(sink.getvalue().to_pybytes())
    start = content.rindex(integrity.BLANK_SEAL)
    content[start : start + len(integrity.BLANK_SEAL)] = hashlib.sha256(content).hexdigest().encode()
    path.write_bytes(content)


def _sync_to_disk(path: Path) -> None:
    """Flush a file to disk: after a power cut, its name must not exist without its content."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _remove_source(store: Path, run: str, source: str, keep: Collection[str] = ()) -> None:
    """Remove one source, its row in `sources` first, but for its files of the tables to keep."""
    row_path = table_file(store, "sources", run, source)
    integrity.mark_of(row_path).unlink(missing_ok=True)
    _remove(row_path)
    for table in schema.TABLES:
        if table.name not in keep:
            _remove(table_file(store, table.name, run, source))


def _remove(path: Path) -> None:
    """Remove a file, or a folder that someone put in its place."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
