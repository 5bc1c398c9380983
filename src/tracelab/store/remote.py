"""Stores in object storage: fetch what is committed into a local folder, and commit sources by create-only puts.

Tables are put first, under names that no other writer uses; the row in `sources` is put last, and only if there is
none. That put is the commit, and of several writers one wins. A replacement is the next generation of the row, an empty
row removes a source, and the highest generation counts. Nothing is locked, and nothing is renamed.
"""

import hashlib
import re
import uuid
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from tracelab import schema, temp_folders
from tracelab.errors import NoDataError, UsageError
from tracelab.store import buckets, integrity
from tracelab.store.commit import render_rows
from tracelab.store.verification import parse_rows

_URL = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<rest>.*)")
_ROW_KEY = re.compile(r"sources/run=(?P<run>[^/]+)/(?P<part>[^/.]+)(\.g(?P<generation>\d+))?\.parquet")
_TOKEN_LENGTH = 12
_TRANSFERS = 16
"""Objects that are transferred at a time: each takes some ten milliseconds, however small it is."""
_ATTEMPTS = 3
"""How often a store is listed anew where an object is gone that a writer has replaced meanwhile."""


class _Row(NamedTuple):
    """The row of a source, in one generation."""

    run: str
    part: str
    generation: int
    size_bytes: int

    @property
    def key(self) -> str:
        suffix = f".g{self.generation}" if self.generation > 1 else ""
        return f"sources/run={self.run}/{self.part}{suffix}.parquet"


def _check_url(url: str) -> None:
    match = _URL.fullmatch(url)
    if match is None or match["scheme"] not in buckets.SCHEMES or not match["rest"].strip("/"):
        listed = ", ".join(f"{scheme}://BUCKET/PATH" for scheme in buckets.SCHEMES)
        raise UsageError(f"{url}: not the address of a store; write a folder, or {listed}")


def fetch(url: str, tables: Iterable[str] = tuple(schema.BY_NAME), *, may_be_empty: bool = False) -> Path:
    """Copy the committed files of some tables into a folder of this process, and return the folder.

    Raises NoDataError for a store without sources, StoreError where it cannot be read.
    """
    bucket = _connect(url)
    selected = set(tables)
    for attempt in range(1, _ATTEMPTS + 1):
        folder = temp_folders.new_path("store")
        folder.mkdir()
        try:
            with buckets.explain_errors(url):
                rows = [row for row in _latest_rows(bucket, "sources") if row.size_bytes]
                if not rows and not may_be_empty:
                    problem = "contains no ingested trace"
                    raise NoDataError(f"the store {url} {problem}; run `tracelab ingest PATH --store {url}` first")
                with ThreadPoolExecutor(_TRANSFERS) as pool:
                    list(pool.map(partial(_download, bucket, folder, tables=selected), rows))
                return folder
        except FileNotFoundError:
            if attempt == _ATTEMPTS:
                raise
    raise AssertionError


def push(folder: Path, url: str, *, replace: bool, superseded: Sequence[str] = ()) -> bool:
    """Commit the source of a local store that has one to a store in object storage, and remove those it supersedes.

    Returns False, and changes nothing, where another writer has committed it; `replace` commits it again.
    """
    bucket = _connect(url)
    committed = False
    with buckets.explain_errors(url):
        for row_path in integrity.list_files(folder, "sources"):
            run = row_path.parent.name.removeprefix("run=")
            committed = _push_source(bucket, folder, row_path, replace=replace)
            for old in superseded:
                _commit_row(bucket, run, old, b"", replace=True)
    return committed


def _push_source(bucket: Any, folder: Path, row_path: Path, *, replace: bool) -> bool:  # noqa: ANN401
    written, run_folder = row_path.read_bytes(), row_path.parent.name
    manifest = integrity.parse_manifest(written)
    assert manifest is not None  # noqa: S101 - it was written a moment ago
    content = render_rows(row_path.stem, parse_rows(written), manifest.files, writer_id=uuid.uuid4().hex)
    keys = _table_keys(content, run_folder, row_path.stem, manifest.files)

    def put(table: str) -> None:
        buckets.obstore().put(bucket, keys[table], folder / table / run_folder / row_path.name)

    with ThreadPoolExecutor(_TRANSFERS) as pool:
        list(pool.map(put, keys))
    committed = _commit_row(bucket, run_folder.removeprefix("run="), row_path.stem, content, replace=replace)
    if not committed:
        buckets.obstore().delete(bucket, list(keys.values()))
    return committed


def _commit_row(bucket: Any, run: str, part: str, content: bytes, *, replace: bool) -> bool:  # noqa: ANN401
    """Put the next generation of a row, and empty the one before, whose tables are deleted."""
    while True:
        older = [row for row in _latest_rows(bucket, f"sources/run={run}") if row.part == part]
        if older and older[0].size_bytes and not replace:
            return False
        row = _Row(run, part, older[0].generation + 1 if older else 1, len(content))
        try:
            buckets.obstore().put(bucket, row.key, content, mode="create")
        except buckets.errors().AlreadyExistsError:
            continue
        for old in older:
            _empty(bucket, old)
        return True


def _empty(bucket: Any, row: _Row) -> None:  # noqa: ANN401
    """Empty the row of an older generation, and delete its tables."""
    content = bytes(buckets.obstore().get(bucket, row.key).bytes())
    manifest = integrity.parse_manifest(content) if content else None
    if manifest is not None:
        buckets.obstore().put(bucket, row.key, b"")
        keys = _table_keys(content, f"run={row.run}", row.part, manifest.files)
        buckets.obstore().delete(bucket, list(keys.values()))


def _download(bucket: Any, folder: Path, row: _Row, *, tables: set[str]) -> None:  # noqa: ANN401
    content = bytes(buckets.obstore().get(bucket, row.key).bytes())
    if not content:  # emptied since it was listed
        raise FileNotFoundError(row.key)
    manifest = integrity.parse_manifest(content)
    run_folder = f"run={row.run}"
    keys = _table_keys(content, run_folder, row.part, manifest.files if manifest else ())
    for table in tables.intersection(keys):
        _write(
            folder / table / run_folder / f"{row.part}.parquet",
            bytes(buckets.obstore().get(bucket, keys[table]).bytes()),
        )
    _write(folder / "sources" / run_folder / f"{row.part}.parquet", content)


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def _table_keys(row: bytes, run_folder: str, part: str, tables: Iterable[str]) -> dict[str, str]:
    """Return the keys of a source's tables, with the hash of its row, which names the writer."""
    token = hashlib.sha256(row).hexdigest()[:_TOKEN_LENGTH]
    return {table: f"{table}/{run_folder}/{part}.{token}.parquet" for table in tables}


def _latest_rows(bucket: Any, prefix: str) -> list[_Row]:  # noqa: ANN401
    """Return the row of the highest generation of each source below a prefix, an empty one where it was removed."""
    rows: dict[tuple[str, str], _Row] = {}
    for batch in buckets.obstore().list(bucket, prefix):
        for item in batch:
            if match := _ROW_KEY.fullmatch(item["path"]):
                row = _Row(match["run"], match["part"], int(match["generation"] or 1), item["size"])
                rows[row.run, row.part] = max(row, rows.get((row.run, row.part), row))
    return list(rows.values())


def _connect(url: str) -> Any:  # noqa: ANN401
    _check_url(url)
    return buckets.connect(url)
