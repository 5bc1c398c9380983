"""Check the files of a store at opening against the manifests of its sources: size and hash of each table file.

A manifest is in the footer of the source's row in `sources`, sealed with the hash of that file. A mark in `.committed`
shows that a source was committed, so that the loss of its row is noticed.
"""

import hashlib
import json
import os
import stat
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import duckdb

from tracelab import schema
from tracelab.errors import StoreError, TracelabError, UsageError

FILES_KEY = "tracelab.files"
SEAL_KEY = "tracelab.sha256"
BLANK_SEAL = b"0" * 64
COMMITTED = ".committed"
_TEXT_FIELD = b"\x18"
"""What precedes the length of a value in Parquet's footer, which is Thrift's compact protocol."""
_CONTINUES = 0x80

PERMISSION_DENIED = "cannot be read: permission denied; make the store's folders and files readable"


class TableFile(NamedTuple):
    """Size and hash of a Parquet file, as ingest wrote it."""

    size_bytes: int
    sha256: str


class Manifest(NamedTuple):
    """The files of the sources of one commit by table, and the version of the schema that they follow."""

    schema_version: str
    files: Mapping[str, TableFile]
    run: str
    part: str
    """The name of its files: that of its source, or one made from all its sources."""
    sources: tuple[str, ...]


class DamagedRowError(StoreError):
    """The file of a source's row in `sources` is not the one that ingest wrote."""


@contextmanager
def explain_read_errors(store: Path) -> Iterator[None]:
    """Replace an error of DuckDB by a StoreError that names the damaged file of the store, if there is one."""
    try:
        yield
    except (duckdb.Error, UnicodeDecodeError, TracelabError) as error:
        cause = error.__cause__ if isinstance(error, TracelabError) else error
        if isinstance(cause, duckdb.Error | UnicodeDecodeError) and not isinstance(error, UsageError):
            from tracelab.store import verification

            problem = verification.find_damaged_file(store, cause)
            if problem is not None:
                raise verification.DamagedStoreError(store, [problem]) from cause
        raise


def parse_manifest(content: bytes) -> Manifest | None:
    """Parse the manifest in a row's file; None if the file has none, as those of older versions.

    Raises DamagedRowError for a file whose hash is not that of its seal. Every opening of a store parses all manifests:
    4 ms for 300, where Parquet readers take 30.
    """
    seal, files = _find_value(content, SEAL_KEY), _find_value(content, FILES_KEY)
    if seal is None and files is None:
        return None
    if seal is None or files is None or content[seal] != _compute_seal(content, seal):
        raise DamagedRowError("its SHA-256 differs from the recorded one")
    listed = json.loads(content[files])
    part = listed.get("source", "")
    tables = {name: TableFile(*file) for name, file in listed["files"].items()}
    return Manifest(listed["schema_version"], tables, listed.get("run", ""), part, tuple(listed.get("sources", [part])))


def list_files(store: Path, table: str) -> list[Path]:
    """Return the files of a table. Raises StoreError for an unreadable folder, which a glob would skip."""
    runs = [_list_folder(run) for run in _list_folder(store / table) if run.name.startswith("run=")]
    return [path for files in runs for path in files if path.suffix == ".parquet"]


def list_rows(store: Path) -> list[Path]:
    """Return the files of all rows in `sources`, those of committed sources also where they are missing."""
    row_paths = list_files(store, "sources")
    known = {(path.parent.name, path.stem) for path in row_paths}
    try:
        marks = os.listdir(store / COMMITTED)  # noqa: PTH208
    except (FileNotFoundError, NotADirectoryError):
        return row_paths
    except PermissionError as error:
        raise StoreError(f"{store / COMMITTED} {PERMISSION_DENIED}") from error
    committed = ((f"run={run}", source) for run, _, source in (mark.rpartition("@") for mark in marks))
    lost = [store / "sources" / run / f"{source}.parquet" for run, source in committed if (run, source) not in known]
    return row_paths + lost


def mark_of(row_path: Path) -> Path:
    """Return the path of the mark of a committed source, a file that contains the path of its trace."""
    run = row_path.parent.name.removeprefix("run=")
    return row_path.parents[2] / COMMITTED / f"{run}@{row_path.stem}"


def check_owner(manifest: Manifest | None, row_path: Path) -> None:
    """Raise DamagedRowError for the row of another source, or a row without the manifest that it had."""
    if manifest is None:
        if mark_of(row_path).exists():
            raise DamagedRowError("it has no record of its source's files")
    elif manifest.part and (f"run={manifest.run}", manifest.part) != (row_path.parent.name, row_path.stem):
        raise DamagedRowError(f"it is the row of source {manifest.part} of run {manifest.run}")


def read_manifests(store: Path, row_paths: Iterable[Path]) -> dict[Path, Manifest | None]:
    """Return the manifests of all sources; None for one of an older version, without manifest.

    Raises DamagedStoreError for damaged rows.
    """
    manifests: dict[Path, Manifest | None] = {}
    damaged: list[Path] = []
    for path in row_paths:
        try:
            manifest = parse_manifest(path.read_bytes())
            check_owner(manifest, path)
            manifests[path] = manifest
        except PermissionError as error:
            raise StoreError(f"{path} {PERMISSION_DENIED}") from error
        except (OSError, DamagedRowError):
            damaged.append(path)
    _raise_problems(store, damaged)
    return manifests


def check_sizes(store: Path, manifests: Mapping[Path, Manifest | None]) -> dict[str, set[str]] | None:
    """Check that exactly the files of the sources exist, in their sizes; return the run folders' names by table.

    None if a source has no manifest. Raises DamagedStoreError.
    """
    folders: defaultdict[str, set[str]] = defaultdict(set)
    suspects: list[Path] = []
    for path, manifest in manifests.items():
        folder, name, root = path.parent.name, path.name, path.parents[2]
        for table, file in manifest.files.items() if manifest else ():
            folders[table].add(folder)
            try:  # a Path for each file would take as long as the system does
                status = os.stat(f"{root}/{table}/{folder}/{name}")  # noqa: PTH116
                intact = status.st_size == file.size_bytes and stat.S_ISREG(status.st_mode)
            except OSError:
                intact = False
            if not intact:
                suspects.append(path)
    suspects.extend(_find_unlisted(manifests))
    _raise_problems(store, suspects)
    return None if None in manifests.values() else folders


def _find_unlisted(manifests: Mapping[Path, Manifest | None]) -> Iterator[Path]:
    """Yield the rows of sources that have a file of a table that their manifest lacks."""
    runs: defaultdict[Path, list[tuple[Path, Manifest]]] = defaultdict(list)
    for path, manifest in manifests.items():
        if manifest is not None:
            runs[path.parent].append((path, manifest))
    for root in {folder.parents[1] for folder in runs}:
        for table in schema.BY_NAME.keys() - {"sources"}:
            folders = _list_names(root / table)
            for run, sources in runs.items():
                unlisted = [path for path, each in sources if table not in each.files] if run.name in folders else []
                present = _list_names(root / table / run.name) if unlisted else frozenset()
                yield from (path for path in unlisted if path.name in present)


def _list_names(folder: Path) -> frozenset[str]:
    """Return the names in a folder; none where there is none. An unreadable one is refused when it is queried."""
    try:
        return frozenset(os.listdir(folder))  # noqa: PTH208
    except OSError:
        return frozenset()


def _raise_problems(store: Path, suspects: Sequence[Path]) -> None:
    """Raise DamagedStoreError for the problems of sources: not for a source that another process replaces."""
    if not suspects:
        return
    from tracelab.store.verification import DamagedStoreError, check_source, run_of

    checks = [check_source(store, run_of(path), path.stem, hashes=False) for path in dict.fromkeys(suspects)]
    if problems := [problem for check in checks for problem in check.problems]:
        raise DamagedStoreError(store, problems)


def check_permissions(folders: Iterable[Path]) -> None:
    """Raise StoreError for the first unreadable folder, which a glob would skip."""
    effective = os.access in os.supports_effective_ids
    for folder in folders:
        if folder.is_dir() and not os.access(folder, os.R_OK | os.X_OK, effective_ids=effective):
            raise StoreError(f"{folder} {PERMISSION_DENIED}")


def _list_folder(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except PermissionError as error:
        raise StoreError(f"{folder} {PERMISSION_DENIED}") from error


def _compute_seal(content: bytes, seal: slice) -> bytes:
    blank = content[: seal.start] + BLANK_SEAL + content[seal.stop :]
    return hashlib.sha256(blank).hexdigest().encode()


def _find_value(content: bytes, key: str) -> slice | None:
    """Return where the value of a key of the footer is; None if the key is missing."""
    mark = key.encode() + _TEXT_FIELD
    found = content.rfind(mark)  # the last one: columns and their statistics precede the footer's keys
    if found < 0:
        return None
    position = found + len(mark)
    length = shift = 0
    for byte in content[position:]:  # 7 bits in each byte, the lowest first; all but the last have the highest bit
        length |= (byte & ~_CONTINUES) << shift
        position, shift = position + 1, shift + 7
        if not byte & _CONTINUES:
            break
    return slice(position, position + length)
