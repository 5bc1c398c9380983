"""List the Parquet files that a store holds, and what a catalog of them lacks."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tracelab.store import session


@dataclass(frozen=True)
class CommittedFile:
    """A Parquet file, which never changes: its run, which is its partition, and its size."""

    path: Path
    run: str
    size_bytes: int


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


def list_committed_files(store: Path) -> dict[str, list[CommittedFile]]:
    """Return the files of a store by table. Raises NoDataError for a store without sources."""
    root = store.resolve()
    files: dict[str, list[CommittedFile]] = {}
    for part in session.list_parts(store).parts.values():
        for table, file in part.files.items():
            files.setdefault(table, []).append(CommittedFile(root / part.key_of(table), part.run, file.size_bytes))
    return files


def find_changes(current: Iterable[CommittedFile], known: Mapping[str, str]) -> Changes:
    """Compare files with those that a catalog has, by path the run.

    A catalog drops whole runs: a run with a file that is gone is dropped, and its other files are added again.
    """
    listed = {file.path.as_posix(): file for file in current}
    gone = known.keys() - listed.keys()
    runs = {known[path] for path in gone}
    new = [file for path, file in listed.items() if path not in known]
    again = [file for path, file in listed.items() if path in known and file.run in runs]
    return Changes(tuple(sorted(runs)), (*new, *again), len(new), len(gone))
