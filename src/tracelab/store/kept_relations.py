"""Keep the shared relations of large runs in the store: the next process reads them in a tenth of the time.

    .rollups/<name>/<definition, run and sources>/<relation>.parquet

The folder is that of rollups, and rows are written aside and renamed like those. The name of a segment follows from the
definition, the run and a hash of its committed sources: rows of other ones are not read, and the next write of the same
run removes them, also where another version of tracelab wrote them.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa

from tracelab import schema
from tracelab.allocator import return_freed_memory
from tracelab.store import rollups, session
from tracelab.store.files import is_copy


@dataclass(frozen=True)
class KeptRelations:
    """The kept relations of a session's store."""

    store: Path
    keys: Mapping[str, str]
    """The hash of the sources of each run that the session has."""

    def read(self, name: str, texts: Sequence[str], run: str) -> pa.Table | None:
        """Return the rows of a relation of one run; None where the store has none."""
        tables = self.find_segment(name, texts, run).read()
        return None if tables is None else tables.get(name)

    def write(self, name: str, texts: Sequence[str], run: str, read_rows: Callable[[], pa.Table]) -> None:
        """Keep the rows of a relation of one run in place of older ones."""
        self.find_segment(name, texts, run).write({name: read_rows()})

    def find_segment(self, name: str, texts: Sequence[str], run: str) -> "KeptSegment":
        """Return where tables of one run are kept, given all that they follow from: queries, macros, sources."""
        texts = [schema.SCHEMA_VERSION, duckdb.__version__, *texts, *session.render_library(self.store)]
        folder = self.store / rollups.FOLDER / _digest([name]) / _digest([*texts, run, self.keys[run]])
        return KeptSegment(folder, run, self.keys[run])


@dataclass(frozen=True)
class KeptSegment:
    """A folder for tables of one run, which may not exist yet; `key` is the hash of the run's sources."""

    folder: Path
    run: str
    key: str

    def read(self) -> dict[str, pa.Table] | None:
        """Return the tables by name; None where the store has none."""
        tables = {}
        try:
            for name in rollups.read_names(self.folder):
                tables[name] = rollups.read_rows(self.folder / f"{name}.parquet")
        except (OSError, pa.ArrowException):  # removed since, or cut off by a crash of the machine
            return None
        return tables or None

    def write(self, tables: Mapping[str, pa.Table], most: int = 1) -> None:
        """Keep tables in place of older ones of the run; of the same sources `most` at once, the last ones."""
        older = [each for each in rollups.list_segments(self.folder.parent) if self.run in each.keys]
        current = sorted((each.folder for each in older if each.keys[self.run] == self.key), key=_written_at)
        remaining = set(current[max(0, len(current) - most + 1) :]) - {self.folder}
        for folder in {self.folder, *(each.folder for each in older)} - remaining:  # this one may be unreadable
            rollups.discard_segment(folder)
        rollups.write_segment(self.folder, dict(tables), {self.run: self.key})
        return_freed_memory()


def _written_at(folder: Path) -> float:
    try:
        return folder.stat().st_mtime
    except OSError:  # removed since
        return 0


def open_kept(con: duckdb.DuckDBPyConnection, *, of_whole: bool = False) -> KeptRelations | None:
    """Return the kept relations of a session; None where it has not the rows of its store on a disk as they are.

    Those `of_whole` recordings follow from all rows also in a scope.
    """
    store = session.whole_store(con) if of_whole else session.plain_store(con)
    if store is None or is_copy(store):
        return None
    return KeptRelations(store, {run.name: run.key for run in rollups.list_runs(con, None)})


def _digest(texts: Sequence[str]) -> str:
    return hashlib.sha256("\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()[:16]
