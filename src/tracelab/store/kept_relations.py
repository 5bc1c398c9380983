"""Keep the shared relations of large runs in the store: the next process reads them in a tenth of the time.

    .rollups/<definition>/<run and sources>/<relation>.parquet

The folder is that of rollups, and rows are written aside and renamed like those. The name of a segment follows from the
run and a hash of its committed sources: rows of other sources are not read.
"""

import hashlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from tracelab import schema
from tracelab.paths.columns import return_freed_memory
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
        try:
            with pq.ParquetFile(self._segment(name, texts, run) / f"{name}.parquet") as file:  # without pandas
                rows: pa.Table = file.read()
        except (OSError, pa.ArrowException):  # none, removed since, or cut off by a crash of the machine
            return None
        return rows

    def write(self, name: str, texts: Sequence[str], run: str, read_rows: Callable[[], pa.Table]) -> None:
        """Keep the rows of a relation of one run in place of older ones."""
        segment = self._segment(name, texts, run)
        for other in rollups.list_segments(segment.parent):
            if run in other.keys:
                shutil.rmtree(other.folder, ignore_errors=True)
        rollups.write_segment(segment, {name: read_rows()}, {run: self.keys[run]})
        return_freed_memory()

    def _segment(self, name: str, texts: Sequence[str], run: str) -> Path:
        """Return the folder for the rows of a relation, given all that they follow from: queries, macros, sources."""
        texts = [schema.SCHEMA_VERSION, duckdb.__version__, name, *texts, *session.render_library(self.store)]
        return self.store / rollups.FOLDER / _digest(texts) / _digest([run, self.keys[run]])


def open_kept(con: duckdb.DuckDBPyConnection) -> KeptRelations | None:
    """Return the kept relations of a session; None where it has not the rows of its store on a disk as they are."""
    store = session.plain_store(con)
    if store is None or is_copy(store):
        return None
    return KeptRelations(store, {run.name: run.key for run in rollups.list_runs(con, None)})


def _digest(texts: Sequence[str]) -> str:
    return hashlib.sha256("\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()[:16]
