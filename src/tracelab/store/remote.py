"""Stores in object storage: the files of one, and a copy of what it holds in a local folder."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tracelab import schema, temp_folders
from tracelab.errors import NoDataError, UsageError
from tracelab.store import buckets, commit_log
from tracelab.store.files import StoredFile

_URL = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<rest>.*)")
_TRANSFERS = 16
"""Objects that are transferred at a time: each takes some ten milliseconds, however small it is."""
_ATTEMPTS = 3
"""How often a store is listed anew where an object is gone that a writer has replaced meanwhile."""


class BucketFiles:
    """The files of a store in object storage. `create` puts an object on the condition that there is none."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._bucket = _connect(url)

    def names(self, folder: str) -> list[str]:
        """Return the names of the objects in a folder."""
        return [file.key.removeprefix(f"{folder}/") for file in self.walk(folder)]

    def walk(self, folder: str) -> Iterator[StoredFile]:
        """Yield the objects below a folder."""
        with buckets.explain_errors(self.url):
            for batch in buckets.obstore().list(self._bucket, folder):
                for item in batch:
                    yield StoredFile(item["path"], item["size"], item["last_modified"].timestamp())

    def read(self, key: str) -> bytes:
        """Return the content of an object."""
        with buckets.explain_errors(self.url):
            return bytes(buckets.obstore().get(self._bucket, key).bytes())

    def create(self, key: str, content: bytes, staging: Path) -> bool:  # noqa: ARG002 - nothing is written aside
        """Put an object unless there is one."""
        with buckets.explain_errors(self.url):
            try:
                buckets.obstore().put(self._bucket, key, content, mode="create")
            except buckets.errors().AlreadyExistsError:
                return False
        return True

    def write(self, key: str, content: bytes, staging: Path) -> None:  # noqa: ARG002
        """Put an object."""
        with buckets.explain_errors(self.url):
            buckets.obstore().put(self._bucket, key, content)

    def place(self, targets: Mapping[Path, str]) -> None:
        """Put files, several at a time."""

        def put(target: tuple[Path, str]) -> None:
            buckets.obstore().put(self._bucket, target[1], target[0])

        with buckets.explain_errors(self.url), ThreadPoolExecutor(_TRANSFERS) as pool:
            list(pool.map(put, targets.items()))

    def delete(self, keys: Sequence[str]) -> int:
        """Delete objects."""
        with buckets.explain_errors(self.url):
            if keys:
                buckets.obstore().delete(self._bucket, list(keys))
        return len(keys)


def check_url(url: str) -> None:
    """Raise UsageError for a text that is not the address of a store in object storage."""
    match = _URL.fullmatch(url)
    if match is None or match["scheme"] not in buckets.SCHEMES or not match["rest"].strip("/"):
        listed = ", ".join(f"{scheme}://BUCKET/PATH" for scheme in buckets.SCHEMES)
        raise UsageError(f"{url}: not the address of a store; write a folder, or {listed}")


def fetch(url: str, tables: Iterable[str] = tuple(schema.BY_NAME)) -> Path:
    """Copy what a store holds of some tables into a folder of this process, and return the folder.

    Raises NoDataError for a store without sources, StoreError where it cannot be read.
    """
    files, selected = BucketFiles(url), set(tables)
    for attempt in range(1, _ATTEMPTS + 1):
        folder = temp_folders.new_path("store")
        folder.mkdir()
        snapshot = commit_log.open_snapshot(url, files)
        if not snapshot.parts and not snapshot.lost:
            problem = "contains no ingested trace"
            raise NoDataError(f"the store {url} {problem}; run `tracelab ingest PATH --store {url}` first")
        keys = [f"{commit_log.FOLDER}/{name}" for name in files.names(commit_log.FOLDER)]
        keys += [part.key_of(table) for part in snapshot.parts.values() for table in part.tables if table in selected]

        def download(key: str, folder: Path = folder) -> None:
            path = folder / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(files.read(key))

        try:
            with ThreadPoolExecutor(_TRANSFERS) as pool:
                list(pool.map(download, keys))
        except FileNotFoundError:
            if attempt == _ATTEMPTS:
                raise
        else:
            return folder
    raise AssertionError


def _connect(url: str) -> Any:  # noqa: ANN401 - obstore's stores have no common type at run time
    """Open the bucket and path of a store. Raises UsageError for a text that is not the address of one."""
    check_url(url)
    return buckets.connect(url)
