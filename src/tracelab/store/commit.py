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
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from filelock import FileLock, Timeout

from tracelab import schema
from tracelab.errors import StoreError
from tracelab.store import integrity
from tracelab.store.integrity import TableFile
from tracelab.store.verification import parse_rows

COMPRESSION = "zstd"

Row = dict[str, object]
"""The columns of a row of `sources`."""

_PARALLEL_BYTES = 4 << 20
"""Files of less are hashed on one thread: to start others would take longer."""
_STAGING = ".staging"
_TOGETHER = "many-"
"""The names of files with the rows of several sources begin so."""
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
        row = parse_rows(path.read_bytes())[0]
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


def commit(store: Path, folder: Path, row: Row, *, replace: bool, superseded: Sequence[str] = ()) -> bool:
    """Move a staged source into place, its row in `sources` last, and remove the sources that it supersedes first.

    Its mark follows the row, and a removal starts with the mark: a mark without a row shows that the row was lost.

    `folder` holds `<table>.parquet` files, `row` the columns of `sources`. Without `replace`, returns False and changes
    nothing if another process stored the same source with the same reader in the meantime.
    """
    run, source = str(row["run"]), str(row["source"])
    files = _stage(folder)  # without the lock, which other ingests wait for
    with FileLock(store / _LOCK):
        if not replace and committed_reader_version(store, run, source) == row["reader_version"]:
            return False
        targets = _stage_rows(store, folder, [row], source, files)
        for part, sources in _find_parts(store, run, {source, *superseded}).items():
            _remove_from_part(store, run, part, sources)
        for old in superseded:
            _remove_part(store, run, old)
        _remove_part(store, run, source, keep=files)  # replaced below, so that no query misses a file it has listed
        _move(targets)
    return True


def commit_together(store: Path, folder: Path, rows: Sequence[Row], *, replace: bool = False) -> set[str]:
    """Move the staged files of several sources of a run into place: one commit, after which all are visible.

    Without `replace`, returns the sources that another process stored in the meantime; if there are any, nothing is
    changed.
    """
    run, sources = str(rows[0]["run"]), {str(row["source"]) for row in rows}
    files = _stage(folder)
    part = _name_part(sources)
    with FileLock(store / _LOCK):
        alone = {source for source in sources if table_file(store, "sources", run, source).exists()}
        parts = _find_parts(store, run, sources)
        if not replace and (alone or parts):
            return alone.union(*parts.values())
        targets = _stage_rows(store, folder, rows, part, files)
        for old, held in parts.items():
            if old != part:
                _remove_from_part(store, run, old, held)
        for source in alone - {part}:
            _remove_part(store, run, source)
        _remove_part(store, run, part, keep=files)
        _move(targets)
    return set()


def remove_part(store: Path, run: str, part: str) -> None:
    """Remove all sources of one commit."""
    with FileLock(store / _LOCK):
        _remove_part(store, run, part)


def _stage(folder: Path) -> dict[str, TableFile]:
    """Flush the staged files to disk; return size and hash of each."""
    paths = sorted(folder.glob("*.parquet"))
    files = _hash_files(paths)
    for path in paths:
        _sync_to_disk(path)
    return files


def _stage_rows(
    store: Path, folder: Path, rows: Sequence[Row], part: str, files: Mapping[str, TableFile]
) -> dict[Path, Path]:
    """Stage rows and mark of a commit; return where each staged file belongs: tables first, then rows, then the mark.

    What needs space or rights precedes the removal of what is replaced: its failure must not cost that.
    """
    run = str(rows[0]["run"])
    now = datetime.now(UTC)
    stamped = [row | {"schema_version": schema.SCHEMA_VERSION, "ingested_at": now} for row in rows]
    (folder / "sources").write_bytes(render_rows(part, stamped, files))
    _sync_to_disk(folder / "sources")
    targets = {folder / f"{table}.parquet": table_file(store, table, run, part) for table in files}
    row_path = targets[folder / "sources"] = table_file(store, "sources", run, part)
    targets[folder / "mark"] = integrity.mark_of(row_path)
    (folder / "mark").write_bytes(os.fsencode(str(rows[0].get("path") or "")))
    for target in targets.values():
        target.parent.mkdir(parents=True, exist_ok=True)
        if not os.access(target.parent, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(target.parent))
    return targets


def _move(targets: Mapping[Path, Path]) -> None:
    for staged, target in targets.items():
        if target.is_dir():
            _remove(target)
        staged.replace(target)


def _name_part(sources: Collection[str]) -> str:
    """Return the name of the files of a commit: that of its source, or one made from all its sources."""
    if len(sources) == 1:
        return next(iter(sources))
    return _TOGETHER + hashlib.sha256(" ".join(sorted(sources)).encode()).hexdigest()[:16]


def _find_parts(store: Path, run: str, sources: Collection[str]) -> dict[str, set[str]]:
    """Return the commits of a run that hold several sources, some of these among them, and which."""
    parts: dict[str, set[str]] = {}
    for path in (store / "sources" / f"run={run}").glob(f"{_TOGETHER}*.parquet"):
        with suppress(OSError, integrity.DamagedRowError):
            manifest = integrity.parse_manifest(path.read_bytes())
            if manifest and (held := set(manifest.sources).intersection(sources)):
                parts[path.stem] = held
    return parts


def _remove_from_part(store: Path, run: str, part: str, sources: Collection[str]) -> None:
    """Remove some sources of a commit of several: the others become a commit of their own."""
    rows = parse_rows(table_file(store, "sources", run, part).read_bytes())
    kept = [row for row in rows if row["source"] not in sources]
    with staging_folder(store) as folder:
        if kept:
            removed = pa.array(sorted(sources))
            for table in schema.BY_NAME.keys() - {"sources"}:
                if (path := table_file(store, table, run, part)).exists():
                    remaining = pq.read_table(path, partitioning=None)
                    remaining = remaining.filter(pc.invert(pc.is_in(remaining.column("source"), removed)))
                    if remaining.num_rows:
                        pq.write_table(
                            remaining, folder / f"{table}.parquet", compression=COMPRESSION, store_schema=False
                        )
            new_part = _name_part({str(row["source"]) for row in kept})
            targets = _stage_rows(store, folder, kept, new_part, _stage(folder))
            _remove_part(store, run, part)
            _move(targets)
        else:
            _remove_part(store, run, part)


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
            manifest, row = integrity.parse_manifest(content), parse_rows(content)[0]
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


def render_rows(part: str, rows: Sequence[Row], files: Mapping[str, TableFile], *, writer_id: str = "") -> bytes:
    """Render the file of a commit's rows with their manifest and seal: the file's own hash, taken with a blank seal.

    `writer_id` distinguishes files of equal rows.
    """
    table = schema.BY_NAME["sources"].rows(rows)
    listed = {"schema_version": rows[0]["schema_version"], "run": rows[0]["run"], "source": part, "files": files}
    if writer_id:
        listed["writer"] = writer_id
    if len(rows) > 1:
        listed["sources"] = [row["source"] for row in rows]
    sink = pa.BufferOutputStream()
    # store_schema would repeat the metadata in another form
    with pq.ParquetWriter(sink, table.schema, compression=COMPRESSION, store_schema=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({integrity.FILES_KEY: json.dumps(listed, separators=(",", ":"))})
        writer.add_key_value_metadata({integrity.SEAL_KEY: integrity.BLANK_SEAL.decode()})
    content = bytearray(sink.getvalue().to_pybytes())
    start = content.rindex(integrity.BLANK_SEAL)
    content[start : start + len(integrity.BLANK_SEAL)] = hashlib.sha256(content).hexdigest().encode()
    return bytes(content)


def _sync_to_disk(path: Path) -> None:
    """Flush a file to disk: after a power cut, its name must not exist without its content."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _remove_part(store: Path, run: str, part: str, keep: Collection[str] = ()) -> None:
    """Remove the sources of a commit, their rows in `sources` first, but for the files of the tables to keep."""
    row_path = table_file(store, "sources", run, part)
    integrity.mark_of(row_path).unlink(missing_ok=True)
    _remove(row_path)
    for table in schema.TABLES:
        if table.name not in keep:
            _remove(table_file(store, table.name, run, part))


def _remove(path: Path) -> None:
    """Remove a file, or a folder that someone put in its place."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
