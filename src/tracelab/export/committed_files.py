"""List the Parquet files that a store holds, and what a catalog of them lacks."""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tracelab.store import buckets, session
from tracelab.store.remote import BucketFiles


@dataclass(frozen=True)
class CommittedFile:
    """A Parquet file, which never changes: its key below the store, its run, which is its partition, size and time."""

    key: str
    run: str
    size_bytes: int
    ingested_at_s: float


@dataclass(frozen=True)
class CommittedFiles:
    """The files of a store by table; `root` is its folder, or its URL."""

    root: Path | str
    by_table: dict[str, list[CommittedFile]]
    read_footer: Callable[[CommittedFile], Any]
    """Reads the Parquet metadata of a file without the rest of it."""

    @property
    def address(self) -> str:
        """The store's folder or URL as text."""
        return self.root.as_posix() if isinstance(self.root, Path) else self.root


@dataclass(frozen=True)
class Registered:
    """How many tables and files a catalog has, how many of these are new, and how many others it had before."""

    tables: int = 0
    files: int = 0
    added: int = 0
    removed: int = 0

    def __add__(self, other: "Registered") -> "Registered":
        """Add the files of one more table."""
        return Registered(
            self.tables + other.tables,
            self.files + other.files,
            self.added + other.added,
            self.removed + other.removed,
        )


@dataclass(frozen=True)
class Changes:
    """What to do to a table of a catalog: drop all files of some runs, then add files."""

    runs: tuple[str, ...]
    files: tuple[CommittedFile, ...]
    added: int
    removed: int


def list_committed_files(store: Path | str) -> CommittedFiles:
    """Return the files of a store in a folder or at a URL. Raises NoDataError for a store without sources."""
    files: dict[str, list[CommittedFile]] = {}
    for part in session.list_parts(session.open_store(store)).parts.values():
        for table, file in part.files.items():
            listed = CommittedFile(part.key_of(table), part.run, file.size_bytes, part.ingested_at_s)
            files.setdefault(table, []).append(listed)
    if isinstance(store, Path):
        root = store.resolve()
        return CommittedFiles(root, files, lambda file: pq.read_metadata(root / file.key))
    bucket = BucketFiles(store)
    return CommittedFiles(store.rstrip("/"), files, lambda file: bucket.read_footer(file.key, file.size_bytes))


def find_changes(current: Iterable[CommittedFile], known: Mapping[str, str]) -> Changes:
    """Compare files with those that a catalog has, by key the run.

    A catalog drops whole runs: a run with a file that is gone is dropped, and its other files are added again.
    """
    listed = {file.key: file for file in current}
    gone = known.keys() - listed.keys()
    runs = {known[key] for key in gone}
    new = [file for key, file in listed.items() if key not in known]
    again = [file for key, file in listed.items() if key in known and file.run in runs]
    return Changes(tuple(sorted(runs)), (*new, *again), len(new), len(gone))


def reader_options(address: str) -> dict[str, str]:
    """Return the endpoint and region of the environment, which readers of S3 do not all take from there."""
    if not address.startswith("s3://"):
        return {}
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    values = {"endpoint": buckets.find_endpoint(), "region": region}
    return {name: value for name, value in values.items() if value}
